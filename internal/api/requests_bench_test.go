package api_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// BenchmarkRequests is how many requests of agents a server answers in a second, heartbeats of 64 hosts that ask one after
// the other, as a ratio to an HTTP/2 server with mutual TLS that reads as many bytes and answers as many, in turn. Both ends are in this process.
func BenchmarkRequests(b *testing.B) {
	const hosts, each = 64, 40
	w := newWorld(b)
	w.release("r0", plan{hosts: hosts, content: "zero"})
	agents := w.agents(hosts)
	body := testkit.Value(json.Marshal(wire.Heartbeat{AgentVersion: "bench", Incarnation: 1, BootID: "boot", Uptime: 1, Process: "process"}))(b)
	status, reply, err := agents[0].call(w.ctx(), "POST", wire.RouteHeartbeat, body)
	testkit.Must(b, err)
	if status != http.StatusOK {
		b.Fatalf("a heartbeat is answered %d: %s", status, reply)
	}
	bare := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	}))
	bare.EnableHTTP2 = true
	bare.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	bare.Config.ErrorLog = log.New(io.Discard, "", 0)
	bare.StartTLS()
	defer bare.Close()
	raw, ours := make([]*http.Client, hosts), make([]*http.Client, hosts)
	for i, a := range agents {
		conf := bare.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		conf.Certificates = []tls.Certificate{*a.cert}
		tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		raw[i], ours[i] = &http.Client{Transport: tr}, a.http
	}
	round := func(clients []*http.Client, url string) time.Duration {
		begun := time.Now()
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() {
				for range each {
					if err := post(c, url, body); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return time.Since(begun)
	}
	round(raw, bare.URL) // the handshakes are not of it
	round(ours, w.url()+wire.RouteHeartbeat)
	var took, floor time.Duration
	for b.Loop() {
		took += round(ours, w.url()+wire.RouteHeartbeat)
		floor += round(raw, bare.URL)
	}
	n := float64(b.N * hosts * each)
	b.ReportMetric(n/took.Seconds(), "requests/s")
	b.ReportMetric(n/floor.Seconds(), "raw/s")
	b.ReportMetric(floor.Seconds()/took.Seconds(), "of-raw")
}

func post(c *http.Client, url string, body []byte) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(wire.Protocol, wire.Version)
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		return fmt.Errorf("answered %s over %s", res.Status, res.Proto)
	}
	return nil
}
