package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Files in the folder of a bare server.
const (
	barePair = "pair.pem" // certificate and key of both ends, made by the parent
	bareLog  = "log"      // what requests bring
)

// Paths of a bare server: each answers with as many bytes as its query n asks for.
const (
	bareAnswer = "/answer" // at once
	bareAppend = "/append" // once the body of the request is on the disk
)

// ServeBare serves HTTP/2 over mutual TLS with nothing behind it but a file, until ctx
// ends: the floor that a server is measured beside. It prints a line like that of the
// server once it listens.
func ServeBare(ctx context.Context, dir string, out io.Writer) error {
	conf, err := bareTLS(dir)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, bareLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := &syncedLog{file: f, wake: make(chan struct{}, 1)}
	group := sync.WaitGroup{}
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() { log.run(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc(bareAnswer, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a request that ends early is the client's failure
		answer(w, r)
	})
	mux.HandleFunc(bareAppend, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = log.append(r.Context(), body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, r)
	})
	srv := &http.Server{Handler: mux, TLSConfig: conf, ReadHeaderTimeout: time.Minute}
	group.Go(func() {
		<-ctx.Done()
		_ = srv.Close() // Serve says why it ended
	})
	fmt.Fprintf(out, "{\"ready\":true,\"server\":\"https://%s\"}\n", l.Addr())
	if err := srv.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// filler is what answers are made of.
var filler [1 << 20]byte

func answer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 0 || n > len(filler) {
		http.Error(w, "n is not a number of bytes", http.StatusBadRequest)
		return
	}
	_, _ = w.Write(filler[:n]) // the client sees a short answer
}

// syncedLog writes what waits in one go and syncs it once: a group commit.
type syncedLog struct {
	file *os.File
	wake chan struct{}

	mu      sync.Mutex
	waiting []byte
	done    []chan error
}

func (l *syncedLog) append(ctx context.Context, record []byte) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.waiting, l.done = append(l.waiting, record...), append(l.done, done)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *syncedLog) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		raw, done := l.waiting, l.done
		l.waiting, l.done = nil, nil
		l.mu.Unlock()
		_, err := l.file.Write(raw)
		if err == nil {
			err = l.file.Sync()
		}
		for _, d := range done {
			d <- err
		}
	}
}

// newBare makes the folder of a bare server, with the certificate that both ends show
// and expect.
func newBare(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour), BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	pair := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})...)
	return os.WriteFile(filepath.Join(dir, barePair), pair, 0o600)
}

// bareTLS is the configuration of either end.
func bareTLS(dir string) (*tls.Config, error) {
	raw, err := os.ReadFile(filepath.Join(dir, barePair))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
