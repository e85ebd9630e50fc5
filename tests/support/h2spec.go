// h2spec of a host whose name leads to this machine: h2spec HOST PORT REPORT [SECTION...]. h2spec finds its host by name, and the
// name is what it says in TLS and in requests: here every name is 127.0.0.1.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
	"golang.org/x/net/dns/dnsmessage"
)

// The answer to a question for an address.
func answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}

// A server of names at the other end of a stream: each message has its length before it (RFC 1035 4.2.2).
func serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		told, err := answer(question)
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(size[:], uint16(len(told)))
		if _, err := c.Write(append(size[:], told...)); err != nil {
			return
		}
	}
}

func main() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(ours)
		return theirs, nil
	}}
	port, err := strconv.Atoi(os.Args[2])
	seconds := 2
	if err == nil && os.Getenv("H2SPEC_SECONDS") != "" {
		seconds, err = strconv.Atoi(os.Getenv("H2SPEC_SECONDS"))
	}
	if err == nil {
		_, err = h2spec.Run(&config.Config{Host: os.Args[1], Port: port, Path: "/", Timeout: time.Duration(seconds) * time.Second, MaxHeaderLen: 4000,
			TLS: true, Insecure: true, JUnitReport: os.Args[3], Sections: os.Args[4:]})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
