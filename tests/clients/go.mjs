// Builds the driver of the Go client: a module of its own in build/clients that gets the client as Go gets any other, and
// services.go, which names every client in the client's source with the parameters of its methods.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url)), root = path.resolve(here, '../..');

function services(source, module) {
  const packages = fs.readdirSync(source, { recursive: true }).filter((file) => /(^|\/)client\.go$/.test(file) && file.includes('/') && !file.startsWith('internal/')).map(path.dirname).sort();
  const rows = packages.map((folder, i) => {
    const text = fs.readFileSync(path.join(source, folder, 'client.go'), 'utf8');
    const methods = [...text.matchAll(/^func \(c \*Client\) ([A-Z]\w*)\(([^)]*)\)/gm)].map(([, name, given]) => {
      const names = given.split(',').map((one) => one.trim().split(' ')[0]).filter((one) => one && one !== 'ctx');
      return `"${name}": {${names.map((one) => `"${one.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}"`).join(', ')}}`;
    });
    return `\t"${folder.replaceAll('/', '.')}": {p${i}.NewClient(config), map[string][]string{${methods.join(', ')}}},`;
  });
  return `package main

import (
	"net/url"
	"os"

	ngrok "${module}"
${packages.map((folder, i) => `\tp${i} "${module}/${folder}"`).join('\n')}
)

var config = func() *ngrok.ClientConfig {
	config := ngrok.NewClientConfig(os.Getenv("POSTERN_API_KEY"))
	config.BaseURL, _ = url.Parse(os.Args[1])
	return config
}()

var services = map[string]service{
${rows.join('\n')}
}

func tell(err error) (told, bool) {
	failure, ok := err.(*ngrok.Error)
	if !ok {
		return told{}, false
	}
	return told{int(failure.StatusCode), failure.ErrorCode, failure.Msg, failure.OperationID(), ngrok.IsNotFound(err)}, true
}
`;
}

// What runs a program of Go's in a folder of ours; its own caches are Go's, and no other toolchain is fetched.
export const go = (cwd, ...args) => execFileSync('go', args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], timeout: 240000, env: { ...process.env, GOTOOLCHAIN: 'local', GOFLAGS: '-mod=mod', GOWORK: 'off' } }).toString();
export const reason = (error) => String(error.stderr || error.message).trim().split('\n').slice(-2).join(' ').slice(0, 300);

// A module of ours with what it needs, got from wherever Go gets modules; {dir} or {why} there is none.
export function module(name, ...needs) {
  const dir = path.join(root, 'build/clients', name);
  try {
    fs.mkdirSync(dir, { recursive: true });
    if (!fs.existsSync(path.join(dir, 'go.mod'))) go(dir, 'mod', 'init', 'postern.test/clients');
    go(dir, 'get', ...needs);
    return { dir };
  } catch (error) {
    return { why: reason(error) };
  }
}

// The driver of a version of the client; {program} or {why} there is none.
export function install(version) {
  const name = `github.com/ngrok/ngrok-api-go/${version.split('.')[0]}`;
  const { dir, why } = module(`go-${version}`, `${name}@${version}`);
  if (why) return { why: `the Go client ${version} cannot be had: ${why}` };
  try {
    // an older Go builds it all the same, and then leaves out of JSON what is empty otherwise than the client means
    const [needs, has] = [go(dir, 'list', '-m', '-f', '{{.GoVersion}}', name), go(dir, 'env', 'GOVERSION').slice(2)].map((one) => one.trim().split('.').map(Number));
    if (needs[0] > has[0] || (needs[0] === has[0] && needs[1] > has[1])) return { why: `the Go client ${version} asks for Go ${needs.join('.')} and this is ${has.join('.')}` };
    fs.copyFileSync(path.join(here, 'go/main.go'), path.join(dir, 'main.go'));
    fs.writeFileSync(path.join(dir, 'services.go'), services(go(dir, 'list', '-m', '-f', '{{.Dir}}', name).trim(), name));
    go(dir, 'build', '-o', 'driver', '.');
    return { program: path.join(dir, 'driver') };
  } catch (error) {
    return { why: `the Go client ${version} cannot be built with ${go(dir, 'version').trim()}: ${reason(error)}` };
  }
}
