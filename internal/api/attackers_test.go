package api_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// attackerJob names an attackJob for a process that attacks.
const attackerJob = "STEADY_TEST_ATTACK"

// attackJob is what attackers do, and what they know.
type attackJob struct {
	Attack, URL, CA, Viewer string
	Nodes                   []attackNode
}

type attackNode struct {
	Name       string
	Key, Token []byte
}

// attack is what strangers, or nodes that registered, do until ctx ends. Ready is called when it has begun.
type attack func(ctx context.Context, w *world, job *attackJob, nodes []*wireNode, ready func())

// attacks are those of which nobody else is to notice anything.
var attacks = map[string]attack{
	"silent sockets": func(ctx context.Context, w *world, _ *attackJob, _ []*wireNode, ready func()) {
		w.silent(ctx, 1500, ready)
	},
	"other rules": func(ctx context.Context, _ *world, _ *attackJob, nodes []*wireNode, ready func()) {
		reconnect(ctx, nodes, ready, func(n *wireNode, turn int, h *nodesdk.Hello) {
			for j := range 30 {
				h.Collections[0].Ignored = append(h.Collections[0].Ignored, fmt.Sprint(turn, "-", j, strings.Repeat("f", 200)))
			}
		})
	},
	"operation numbers": func(ctx context.Context, _ *world, _ *attackJob, nodes []*wireNode, ready func()) {
		reconnect(ctx, nodes, ready, func(_ *wireNode, _ int, h *nodesdk.Hello) { h.Op = math.MaxUint64 })
	},
	"changes": func(ctx context.Context, _ *world, _ *attackJob, nodes []*wireNode, ready func()) {
		change(ctx, nodes[0], ready, nil, func(turn, i int) string {
			return fmt.Sprintf(`{"turn":"%d","x":"%s"}`, turn, strings.Repeat("x", 100<<10))
		})
	},
	"ports": func(ctx context.Context, _ *world, _ *attackJob, nodes []*wireNode, ready func()) {
		change(ctx, nodes[0], ready, func(h *nodesdk.Hello) { h.Machine, h.Collections[0].Ports = "box", []string{"p/*"} }, func(turn, i int) string {
			var b strings.Builder
			for p := 1 + i; p < 1<<16; p += 48 {
				fmt.Fprintf(&b, `,"%d":%d`, p, p)
			}
			return fmt.Sprintf(`{"turn":"%d","p":{%s}}`, turn, b.String()[1:])
		})
	},
	"undone pushes": func(ctx context.Context, _ *world, _ *attackJob, nodes []*wireNode, ready func()) {
		for ctx.Err() == nil {
			if m, err := nodes[0].open(ctx); err == nil && m.Welcome != nil {
				ready()
				nodes[0].serve(ctx, func(m nodesdk.Message) bool {
					if m.Request.Apply == nil {
						return false
					}
					o := nodesdk.Object{Kind: m.Request.Apply.Kind, ID: m.Request.Apply.ID, ETag: "as-it-was", Config: json.RawMessage(`{"input":"as it was"}`)}
					a := &nodesdk.Answer{Applied: &nodesdk.Applied{Op: m.Request.Apply.Op, Outcome: nodesdk.OutcomeApplied, Object: &o}}
					return nodes[0].write(ctx, nodesdk.Message{Type: nodesdk.TypeAnswer, ID: m.ID, Answer: a}) != nil || true
				})
			}
			if nodes[0].conn != nil {
				_ = nodes[0].conn.CloseNow()
			}
		}
	},
	"login codes": func(ctx context.Context, w *world, _ *attackJob, _ []*wireNode, ready func()) {
		ask(ctx, w, 4, ready, func(i int) (string, string, string, string) {
			return http.MethodPost, loginsPath, "", fmt.Sprintf(`{"code":"%026d"}`, i)
		})
	},
	"previews of a viewer": func(ctx context.Context, w *world, job *attackJob, _ []*wireNode, ready func()) {
		set := operator.SetObject{Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "good", Config: []byte(`{"a":1}`)}}}}
		body, _ := json.Marshal(set)
		ask(ctx, w, 4, ready, func(i int) (string, string, string, string) {
			return http.MethodPost, fmt.Sprintf("/v1/operator/config/flow/f-%d/preview", i), job.Viewer, string(body)
		})
	},
}

// runAttack is a process of attackers, until its input ends.
func runAttack(job string) {
	var j attackJob
	if err := errors.Join(syscall.Setpriority(syscall.PRIO_PGRP, 0, 19), json.Unmarshal([]byte(job), &j)); err != nil {
		panic(err)
	}
	w := &world{child: &child{url: j.URL, ca: []byte(j.CA)}}
	var nodes []*wireNode
	for _, n := range j.Nodes {
		nodes = append(nodes, &wireNode{w: w, name: n.Name, key: ed25519.PrivateKey(n.Key), token: n.Token})
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { attacks[j.Attack](ctx, w, &j, nodes, sync.OnceFunc(func() { fmt.Println("ready") })) })
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
}

// attackers begins an attack in a process of its own, which gets what the server leaves of the processors, and returns what ends it.
func (w *world) attackers(job attackJob) (end func()) {
	w.t.Helper()
	job.URL, job.CA = w.url(), string(w.ca())
	raw := testkit.Value(json.Marshal(job))(w.t)
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env, cmd.Stderr = append(os.Environ(), attackerJob+"="+string(raw)), os.Stderr
	in, out := testkit.Value(cmd.StdinPipe())(w.t), testkit.Value(cmd.StdoutPipe())(w.t)
	testkit.Must(w.t, cmd.Start())
	testkit.Value(bufio.NewReader(out).ReadString('\n'))(w.t)
	end = sync.OnceFunc(func() {
		_ = in.Close()
		testkit.Must(w.t, cmd.Wait())
	})
	w.t.Cleanup(end)
	return end
}

// recruit has nodes of which attackers have the keys.
func (w *world) recruit(job *attackJob, names ...string) {
	for _, name := range names {
		n := w.wireNode(name)
		job.Nodes = append(job.Nodes, attackNode{name, n.key, n.token})
	}
}

// reconnect has nodes connect again and again, whatever they are answered.
func reconnect(ctx context.Context, nodes []*wireNode, ready func(), edit func(n *wireNode, turn int, h *nodesdk.Hello)) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				n.edit = func(h *nodesdk.Hello) { edit(n, turn, h) }
				_, _ = n.open(ctx) // it may be refused
				if n.conn != nil {
					_ = n.conn.CloseNow()
				}
				ready()
			}
		})
	}
	all.Wait()
}

// change has a node change 48 objects between any two readings, and say so all the time.
func change(ctx context.Context, n *wireNode, ready func(), edit func(*nodesdk.Hello), config func(turn, i int) string) {
	n.edit = edit
	for turn := 0; ctx.Err() == nil; {
		if m, err := n.open(ctx); err != nil || m.Welcome == nil {
			continue
		}
		of, stop := context.WithCancel(ctx)
		var says sync.WaitGroup
		says.Go(func() {
			often := time.NewTicker(20 * time.Millisecond)
			defer often.Stop()
			for g := uint64(1); n.write(of, nodesdk.Message{Type: nodesdk.TypeChanged, Changed: &nodesdk.Changed{Generation: g}}) == nil; g++ {
				select {
				case <-often.C:
				case <-of.Done():
				}
			}
		})
		n.serve(ctx, func(m nodesdk.Message) bool {
			turn++
			n.objects = nil
			for i := range 48 {
				n.objects = append(n.objects, nodesdk.Object{Kind: nodeconfig.Flow, ID: fmt.Sprint("o-", i), ETag: fmt.Sprint(turn), Config: json.RawMessage(config(turn, i))})
			}
			if turn > 1 {
				ready()
			}
			return false
		})
		stop()
		says.Wait()
		_ = n.conn.CloseNow()
	}
}

// ask has so many callers send requests, one after the other, of method, path, token and body.
func ask(ctx context.Context, w *world, callers int, ready func(), request func(i int) (method, path, token, body string)) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.ca())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, ForceAttemptHTTP2: true}}
	var all sync.WaitGroup
	for of := range callers {
		all.Go(func() {
			for i := of; ctx.Err() == nil; i += callers {
				method, path, token, body := request(i)
				req, err := http.NewRequestWithContext(ctx, method, w.url()+path, strings.NewReader(body))
				if err != nil {
					panic(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				ready()
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
}

// silent has connections open that never say hello, and again whenever one is ended, until ctx ends. Ready is called when each
// was open once, or was refused.
func (w *world) silent(ctx context.Context, connections int, ready func()) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.ca())
	var all, once sync.WaitGroup
	for range connections {
		first := sync.OnceFunc(once.Done)
		once.Add(1)
		all.Go(func() {
			defer first()
			transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}}
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				conn, _, err := websocket.Dial(ctx, w.url()+nodesdk.Path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{nodesdk.Subprotocol}})
				if err == nil {
					_, _, err = conn.Read(ctx) // the challenge
				}
				first()
				if err == nil {
					_, _, _ = conn.Read(ctx) // until it is ended
				}
				if conn != nil {
					_ = conn.CloseNow()
				}
				again := time.NewTimer(200 * time.Millisecond) // of a stranger that floods
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
		})
	}
	once.Wait()
	ready()
	all.Wait()
}

// TestAttacksAreKnown: each attack that a benchmark names is one, and begins in a process of its own.
func TestAttacksAreKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name := range attacks { // order-free: each by itself
		if name == "silent sockets" {
			continue // TestSilentConnectionsKeepNoNodeOut
		}
		job := attackJob{Attack: name, Viewer: w.tokenOf(operator.Viewer, 0).Secret}
		w.recruit(&job, "bad-0-"+strings.ReplaceAll(name, " ", "-"))
		if name == "undone pushes" {
			w.set(job.Nodes[0].Name, "undone", `{"input":"a"}`)
		}
		w.attackers(job)()
	}
}
