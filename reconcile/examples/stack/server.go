package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile"
)

// server is the child. It answers its name, and what its upstream answers.
type server struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Upstream string `json:"upstream,omitempty"`
}

type action string

func (a action) ActionName() string { return string(a) }

// servers reconciles them; open is the world.
type servers struct {
	mu    sync.Mutex
	open  map[reconcile.Ref]running
	stuck bool     // none of them can be closed
	acts  []string // that worked, in order
}

type running struct {
	server
	Address string
	http    *http.Server
}

func (s *servers) Observe(_ context.Context, r reconcile.Resource[server]) (running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[r.Ref], nil
}

func (s *servers) Decide(v reconcile.View[server, running]) reconcile.Decision {
	is := v.Observed
	switch {
	case is.Address == "" && v.Resource.Delete:
		return reconcile.IsConverged(reconcile.Because("closed", ""))
	case is.Address == "":
		return reconcile.Do(action("listen"), reconcile.Because("down", "nothing listens"))
	case v.Resource.Delete || is.server != v.Resource.Desired:
		return reconcile.Do(action("close"), reconcile.Because("unwanted", "what listens is not what is desired"))
	}
	return reconcile.IsConverged(reconcile.Because("listens", "")).WithReport(is.Address)
}

func (s *servers) Act(_ context.Context, r reconcile.Resource[server], a reconcile.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, up := s.open[r.Ref]
	switch {
	case a == action("close") && s.stuck:
		return errors.New("it does not close")
	case a == action("close") && up:
		delete(s.open, r.Ref)
		s.acts = append(s.acts, "close "+r.Desired.Name)
		return is.http.Close()
	case a == action("listen") && !up:
		l, err := net.Listen("tcp", r.Desired.Listen)
		if err != nil {
			return reconcile.Terminal("cannot-listen", err)
		}
		h := &http.Server{Handler: r.Desired, ReadHeaderTimeout: time.Second}
		s.open[r.Ref] = running{r.Desired, l.Addr().String(), h}
		s.acts = append(s.acts, "listen "+r.Desired.Name)
		go func() { _ = h.Serve(l) }() // it ends with Close
	}
	return nil
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, s.Name)
	if s.Upstream != "" {
		fmt.Fprint(w, " > ", ask(s.Upstream))
	}
}

// ask is what the server at address answers.
func ask(address string) string {
	resp, err := http.Get("http://" + address)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
