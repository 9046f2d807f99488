package dockerapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Sum stands for the bytes of an answer.
type Sum [sha256.Size]byte

// ContainerInspectIfChanged is ContainerInspect for who has seen the container before.
// It gives nil if the engine answers what it answered when it gave the sum, byte
// for byte: most looks see nothing new, and decoding is most of what they cost.
func (e *Engine) ContainerInspectIfChanged(ctx context.Context, id string, known Sum) (*container.InspectResponse, Sum, error) {
	var out *container.InspectResponse
	var sum Sum
	err := e.do(ctx, e.timeout, "inspect container", id, func(ctx context.Context) error {
		b := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(b)
		ok, err := e.bytes(ctx, http.MethodGet, "/containers/"+url.PathEscape(id)+"/json", http.NoBody, b)
		if err != nil {
			return err
		}
		if !ok { // the client gives its own error, as everywhere
			got, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
			out = &got.Container
			return err
		}
		if sum = sha256.Sum256(b.Bytes()); sum == known {
			return nil
		}
		out = new(container.InspectResponse)
		return json.Unmarshal(b.Bytes(), out)
	})
	if err != nil {
		return nil, Sum{}, err
	}
	return out, sum, nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// rawClient is a client of the engine for answers as bytes.
func (e *Engine) rawClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return e.api.Dialer()(ctx) },
		MaxIdleConns: 6, MaxIdleConnsPerHost: 6, IdleConnTimeout: 30 * time.Second,
	}}
}

// bytes reads an answer; ok is false for one that says no.
func (e *Engine) bytes(ctx context.Context, method, path string, body io.Reader, into *bytes.Buffer) (ok bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://engine/v"+e.api.ClientVersion()+path, body)
	if err != nil {
		return false, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "steady")
	if err := e.countRequest(req); err != nil {
		return false, err
	}
	r, err := e.raw.Do(req)
	if err != nil {
		return false, err
	}
	defer r.Body.Close()
	noteStatus(r)
	into.Reset()
	if _, err := into.ReadFrom(r.Body); err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return r.StatusCode == http.StatusOK || r.StatusCode == http.StatusCreated, nil
}
