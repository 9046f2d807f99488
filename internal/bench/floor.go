package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/sandbox"
)

// Floor is what the requests of a change cost with nothing behind them, measured in
// the same run: as many requests of as many bytes, from as many connections at once,
// to a server that only answers, and to one that first has each report on the disk.
type Floor struct {
	Requests int64 `json:"requestsPerHost"`
	Sent     int64 `json:"sentBytesPerHost"`
	Received int64 `json:"receivedBytesPerHost"`
	HTTP     Spent `json:"http"`   // HTTP/2 over mutual TLS alone
	Synced   Spent `json:"synced"` // and each report appended, synced in groups
	// Ratios are those of the typical change without a policy to Synced, 0 if that took too
	// little to tell.
	SecondsRatio float64 `json:"secondsRatio"`
	ServerRatio  float64 `json:"serverCpuRatio"`
}

// traffic counts bytes on connections, those of TLS and HTTP/2 too.
type traffic struct{ sent, received atomic.Int64 }

// dial counts what a connection carries.
func (t *traffic) dial(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &counted{conn, t}, nil
	}
}

type counted struct {
	net.Conn
	t *traffic
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.t.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.t.sent.Add(int64(n))
	return n, err
}

// bareOverhead is about what a request has on the wire besides its bodies: headers in
// their short form, frames, and TLS records, each way.
const bareOverhead = 120

// floor measures after everything else, when the agents are gone: rounds of the bare
// server with and without appends in turn.
func (b *bench) floor() error {
	c := typical(b.report.Plain.Rounds, func(c Change) Spent { return c.Spent })
	f := Floor{Requests: max(1, (c.Requests+int64(b.o.Hosts)/2)/int64(b.o.Hosts)), Sent: c.SentPerHost, Received: c.ReceivedPerHost}
	dir := filepath.Join(b.dir, "floor")
	if err := newBare(dir); err != nil {
		return err
	}
	p, err := sandbox.Start("the bare server", filepath.Join(b.dir, "floor.log"), exec.Command(b.o.Exe, "bench", "floor", dir))
	if err != nil {
		return err
	}
	defer p.Stop(stopIn)
	line, err := p.WaitReady(b.ctx, readyIn)
	if err != nil {
		return err
	}
	var r ready
	if err := json.Unmarshal([]byte(line), &r); err != nil || !r.Ready {
		return fmt.Errorf("the bare server began with %q instead of the line that it is ready", line)
	}
	hosts, err := b.bareHosts(dir, r.Server, &f)
	if err != nil {
		return err
	}
	var plain, synced []Spent
	for range b.o.Rounds {
		for _, path := range []string{bareAnswer, bareAppend} {
			s, err := b.bareRound(p.PID(), hosts, path, f.Requests)
			if err != nil {
				return err
			}
			if path == bareAnswer {
				plain = append(plain, s)
			} else {
				synced = append(synced, s)
			}
		}
	}
	itself := func(s Spent) Spent { return s }
	f.HTTP, f.Synced = typical(plain, itself), typical(synced, itself)
	f.SecondsRatio = c.Seconds / f.Synced.Seconds
	if f.Synced.ServerMillisPerHost > 0 { // the kernel counts in hundredths of a second
		f.ServerRatio = c.ServerMillisPerHost / f.Synced.ServerMillisPerHost
	}
	b.report.Floor = f
	b.progress("the floor: %.2f s, server CPU %.2f ms per host", f.Synced.Seconds, f.Synced.ServerMillisPerHost)
	return nil
}

// bareHost is a connection to the bare server.
type bareHost struct {
	client *http.Client
	url    string
	body   []byte // of a report
	answer int    // bytes of what a host is offered
}

// bareHosts connects one client for each host.
func (b *bench) bareHosts(dir, url string, f *Floor) ([]bareHost, error) {
	conf, err := bareTLS(dir)
	if err != nil {
		return nil, err
	}
	offered := int(max(0, f.Received-f.Requests*bareOverhead))
	reported := make([]byte, max(0, f.Sent-f.Requests*bareOverhead)/max(1, f.Requests-1))
	hosts := make([]bareHost, b.o.Hosts)
	g, ctx := errgroup.WithContext(b.ctx)
	g.SetLimit(enrolAtOnce)
	for i := range hosts {
		t := &http.Transport{TLSClientConfig: conf.Clone(), DialContext: dialer(i).DialContext, ForceAttemptHTTP2: true}
		hosts[i] = bareHost{client: &http.Client{Transport: t}, url: url, body: reported, answer: min(offered, len(filler))}
		g.Go(func() error { return hosts[i].post(ctx, bareAnswer, nil, 0) })
	}
	return hosts, g.Wait()
}

// bareRound has every host make its requests, all hosts at once.
func (b *bench) bareRound(pid int, hosts []bareHost, path string, requests int64) (Spent, error) {
	before, err := readGauge(pid, os.Getpid(), 0)
	if err != nil {
		return Spent{}, err
	}
	g, ctx := errgroup.WithContext(b.ctx)
	for _, h := range hosts {
		g.Go(func() error {
			err := h.post(ctx, bareAnswer, nil, h.answer)
			for i := int64(1); i < requests && err == nil; i++ {
				err = h.post(ctx, path, h.body, 0)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Spent{}, err
	}
	after, err := readGauge(pid, os.Getpid(), requests*int64(len(hosts)))
	return spent(before, after, len(hosts)), err
}

func (h bareHost) post(ctx context.Context, path string, body []byte, answer int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path+"?n="+strconv.Itoa(answer), bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	_ = res.Body.Close() // read to its end
	if err == nil && (res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || n != int64(answer)) {
		return fmt.Errorf("the bare server answered %s %s with %d bytes instead of %d", res.Proto, res.Status, n, answer)
	}
	return err
}

// dialer gives a connection its local address, see hostsPerAddress.
func dialer(index int) *net.Dialer {
	d := &net.Dialer{Timeout: 30 * time.Second}
	if index >= hostsPerAddress { // all of 127.0.0.0/8 is local on Linux
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+index/hostsPerAddress))}
	}
	return d
}
