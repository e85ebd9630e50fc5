// The Go client by reflection: the key is in POSTERN_API_KEY, the URL is the argument; a line of JSON in is one call, a line out
// its result. What the client has stands in services.go, which go.mjs writes from the client's own source.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// service is one client and its methods, each with the names of its parameters but the context.
type service struct {
	client  interface{}
	methods map[string][]string
}

type request struct {
	Service string                     `json:"service"`
	Method  string                     `json:"method"`
	Args    map[string]json.RawMessage `json:"args"`
}

type told struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Operation string `json:"operation"`
	NotFound  bool   `json:"notFound"`
}

var contextType = reflect.TypeOf((*context.Context)(nil)).Elem()

func method(one service, name string) reflect.Value {
	value := reflect.ValueOf(one.client)
	for i := 0; i < value.NumMethod(); i++ {
		if value.Type().Method(i).Name == name {
			return value.Method(i)
		}
	}
	panic("no method " + name)
}

// fields are the names that an argument has on the wire: those of a struct, or the parameter's own.
func fields(name string, kind reflect.Type) []string {
	if kind.Kind() != reflect.Ptr || kind.Elem().Kind() != reflect.Struct {
		return []string{name}
	}
	names := []string{}
	for i := 0; i < kind.Elem().NumField(); i++ {
		names = append(names, strings.Split(kind.Elem().Field(i).Tag.Get("json"), ",")[0])
	}
	return names
}

// parameters calls take for each parameter of a method that is not the context.
func parameters(one service, name string, take func(position int, names []string, kind reflect.Type)) {
	kind, next := method(one, name).Type(), 0
	for i := 0; i < kind.NumIn(); i++ {
		if kind.In(i) == contextType {
			continue
		}
		take(i, fields(one.methods[name][next], kind.In(i)), kind.In(i))
		next++
	}
}

// argument makes one from the members of args that it has; what it cannot hold is an error.
func argument(names []string, kind reflect.Type, args map[string]json.RawMessage) (reflect.Value, error) {
	value := reflect.New(kind)
	if kind.Kind() != reflect.Ptr {
		return value.Elem(), json.Unmarshal(args[names[0]], value.Interface())
	}
	own := map[string]json.RawMessage{}
	for _, name := range names {
		if raw, ok := args[name]; ok {
			own[name] = raw
		}
	}
	text, err := json.Marshal(own)
	if err != nil {
		return value, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	value = reflect.New(kind.Elem())
	return value, decoder.Decode(value.Interface())
}

// items goes through a list by the client's own iterator, which asks for page after page.
func items(list reflect.Value) (interface{}, error) {
	all := []interface{}{}
	here := []reflect.Value{reflect.ValueOf(context.Background())}
	for list.MethodByName("Next").Call(here)[0].Bool() {
		all = append(all, list.MethodByName("Item").Call(nil)[0].Interface())
	}
	err, _ := list.MethodByName("Err").Call(nil)[0].Interface().(error)
	return all, err
}

func call(asked request) (result interface{}, err error) {
	one, name := services[asked.Service], goName(services[asked.Service], asked.Method)
	function := method(one, name)
	in := make([]reflect.Value, function.Type().NumIn())
	for i := range in {
		in[i] = reflect.ValueOf(context.Background())
	}
	parameters(one, name, func(position int, names []string, kind reflect.Type) {
		value, failure := argument(names, kind, asked.Args)
		if failure != nil {
			err = fmt.Errorf("%s of %s: %w", names, asked.Method, failure)
		}
		in[position] = value
	})
	if err != nil {
		return nil, err
	}
	out := function.Call(in)
	last := out[len(out)-1]
	if failed, ok := last.Interface().(error); ok && failed != nil {
		return nil, failed
	}
	if len(out) == 1 {
		if last.Kind() == reflect.Interface && last.IsNil() {
			return nil, nil
		}
		return items(last)
	}
	return out[0].Interface(), nil
}

// wireName is the name of a method in every language: DeleteCertificate is delete_certificate.
func wireName(name string) string {
	var out strings.Builder
	for i, letter := range name {
		if letter >= 'A' && letter <= 'Z' && i > 0 {
			out.WriteByte('_')
		}
		out.WriteString(strings.ToLower(string(letter)))
	}
	return out.String()
}

func goName(one service, name string) string {
	for own := range one.methods {
		if wireName(own) == name {
			return own
		}
	}
	panic("no method " + name)
}

func print(value interface{}) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func main() {
	known := map[string]map[string][]string{}
	for name, one := range services {
		known[name] = map[string][]string{}
		for own := range one.methods {
			all := []string{}
			parameters(one, own, func(_ int, names []string, _ reflect.Type) { all = append(all, names...) })
			known[name][wireName(own)] = all
		}
	}
	print(known)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		result, err := call(asked)
		if err == nil {
			print(map[string]interface{}{"result": result})
		} else if failure, ok := tell(err); ok {
			print(map[string]interface{}{"error": failure})
		} else {
			print(map[string]interface{}{"broken": err.Error()})
		}
	}
}
