package router

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
)

// most bytes of a certificate or key file.
const maxPEM = 1 << 20

// Certificates are the pairs NAME.crt and NAME.key of a folder, as of the last
// Reload. NAME.crt holds the whole chain.
type Certificates struct {
	folder string
	byName atomic.Pointer[map[string]*tls.Certificate]
}

// OpenCertificates makes an empty set for the folder; Reload fills it.
func OpenCertificates(folder string) *Certificates {
	c := &Certificates{folder: folder}
	c.byName.Store(&map[string]*tls.Certificate{})
	return c
}

// Reload reads the named pairs again and swaps them in at once; connections
// that are open keep theirs. A pair that cannot be read is reported, and the
// one before it stays in use. Names left out are forgotten.
func (c *Certificates) Reload(names []string) error {
	before := *c.byName.Load()
	next := make(map[string]*tls.Certificate, len(names))
	var errs []error
	for _, name := range names {
		pair, err := c.read(name)
		if err != nil {
			still := "no connection can use it until it is there"
			if pair = before[name]; pair != nil {
				still = "the one read before stays in use"
			}
			errs = append(errs, fmt.Errorf("certificate %s: %w; %s", name, err, still))
		}
		if pair != nil {
			next[name] = pair
		}
	}
	c.byName.Store(&next)
	return errors.Join(errs...)
}

func (c *Certificates) read(name string) (*tls.Certificate, error) {
	crt, err := readBounded(filepath.Join(c.folder, name+".crt"))
	if err != nil {
		return nil, err
	}
	key, err := readBounded(filepath.Join(c.folder, name+".key"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		return nil, fmt.Errorf("%s.crt and %s.key do not make a pair: %w", name, name, err)
	}
	return &pair, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(data) > maxPEM {
		err = fmt.Errorf("%s is longer than %d bytes: it is no certificate or key", path, maxPEM)
	}
	return data, err
}

// get returns the named pair, or nil.
func (c *Certificates) get(name string) *tls.Certificate { return (*c.byName.Load())[name] }
