package fleet

import (
	"errors"
	"fmt"
	"net/url"
)

// MaxServers bounds the addresses of the server in a declaration.
const MaxServers = 8

// CheckServer refuses what is not the address of a server, such as
// https://steady.example:8443.
func CheckServer(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme != "https" || u.Hostname() == "" || len(address) > 256 || (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() != address {
		return errors.New("expected https://HOST or https://HOST:PORT and nothing behind it")
	}
	return nil
}

// CheckServers refuses a list of addresses, each with its index.
func CheckServers(list []string, refuse func(i int, err error)) {
	seen := map[string]bool{}
	for i, a := range list {
		err := CheckServer(a)
		switch {
		case i >= MaxServers:
			err = fmt.Errorf("at most %d addresses", MaxServers)
		case seen[a]:
			err = errors.New("it is in the list already")
		}
		if seen[a] = true; err != nil {
			refuse(i, err)
		}
	}
}
