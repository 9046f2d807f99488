package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// service is what runs on a host: it answers from the files that the agent
// keeps there, as a web server would.
type service struct {
	addr   string
	server *http.Server
	done   chan error
}

// serve starts the service of the host whose files are below root.
func serve(root string) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		body, err := os.ReadFile(filepath.Join(root, "www", "healthz"))
		if err != nil {
			http.Error(w, "nothing is deployed", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(body) // the probe sees a short answer as a failure
	})
	s := &service{addr: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, done: make(chan error, 1)}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

func (s *service) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	if e := <-s.done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
