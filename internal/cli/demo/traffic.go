package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	requestTimeout = time.Minute
	requestEvery   = 40 * time.Millisecond
)

// Requests counts what clients asked of the routers.
type Requests struct {
	Answered int `json:"answered"`
	Refused  int `json:"refused"`
}

// visitor asks a host's router for the application, as any client would.
type visitor struct {
	host, addr string
	client     *http.Client
}

func newVisitor(host, addr string) *visitor {
	return &visitor{host: host, addr: addr, client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}}
}

func (v *visitor) close() { v.client.CloseIdleConnections() }

type answer struct{ release, born string }

// request asks once. An answer other than 200 is an error.
func (v *visitor) request(ctx context.Context) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.addr+"/", nil)
	if err != nil {
		return answer{}, err
	}
	req.Host = shopHost
	r, err := v.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return answer{}, err
	}
	if r.StatusCode != http.StatusOK {
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return answer{}, fmt.Errorf("the router of %s answered %s: %s", v.host, r.Status, text)
	}
	var a answer
	var beat int
	line := strings.ReplaceAll(string(body), ",", "")
	if _, err := fmt.Sscanf(line, strings.ReplaceAll(strings.Replace(answerForm, "beat %s", "beat %d", 1), ",", ""), &a.release, &a.born, &beat); err != nil {
		return answer{}, fmt.Errorf("the router of %s answered %q: %w", v.host, body, err)
	}
	return a, nil
}

// traffic asks every router again and again until it is stopped.
type traffic struct {
	stop  context.CancelFunc
	wait  sync.WaitGroup
	mu    sync.Mutex
	count Requests
	first error // that was refused
}

func startTraffic(ctx context.Context, visitors []*visitor) *traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &traffic{stop: stop}
	for _, v := range visitors {
		t.wait.Go(func() { t.request(ctx, v) })
	}
	return t
}

func (t *traffic) request(ctx context.Context, v *visitor) {
	tick := time.NewTicker(requestEvery)
	defer tick.Stop()
	for {
		_, err := v.request(ctx)
		if ctx.Err() != nil {
			return // it was cut off, not refused
		}
		t.note(err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (t *traffic) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.count.Answered++
		return
	}
	t.count.Refused++
	if t.first == nil {
		t.first = err
	}
}

// now is the count so far, and what was refused first.
func (t *traffic) now() (Requests, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count, t.first
}

// end stops asking and gives the whole count.
func (t *traffic) end() (Requests, error) {
	t.stop()
	t.wait.Wait()
	return t.now()
}
