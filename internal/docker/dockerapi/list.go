package dockerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ContainerList lists containers that carry all labels (`key` or `key=value`);
// all includes those that do not run. What is listed is shared with later
// listings: it must not be changed.
func (e *Engine) ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error) {
	var out []container.Summary
	err := e.do(ctx, e.timeout, "list containers", "", func(ctx context.Context) error {
		if all && len(labels) == 0 {
			ok, err := e.listAll(ctx, &out)
			if ok || err != nil {
				return err
			}
		}
		// Also for what an engine refused: in the same words as everywhere.
		got, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: all, Filters: labelled(labels)})
		out = got.Items
		return err
	})
	return out, err
}

func (e *Engine) listAll(ctx context.Context, out *[]container.Summary) (ok bool, err error) {
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	if ok, err = e.bytes(ctx, http.MethodGet, "/containers/json?all=1", http.NoBody, b); !ok || err != nil {
		return ok, err
	}
	*out, err = e.listed.read(b.Bytes())
	return true, err
}

// listed remembers the last listing: from one to the next most containers are the
// same, byte for byte, and decoding them is most of what a listing costs.
type listed struct {
	mu   sync.Mutex
	last map[string]summary // by ID
}

type summary struct {
	raw []byte // one whole JSON object
	got container.Summary
}

// Engines put the ID first.
const (
	idHead = `{"Id":"`
	idLen  = 64
)

// read decodes a listing as encoding/json does, into what it remembers where the
// bytes are the same.
func (l *listed) read(body []byte) ([]container.Summary, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '[' {
		var out []container.Summary
		return out, json.Unmarshal(body, &out) // null, or nothing that can be read
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[string]summary, len(l.last))
	out := make([]container.Summary, 0, len(l.last))
	rest := bytes.TrimSpace(body[1:])
	for len(rest) > 0 && rest[0] != ']' {
		if len(out) > 0 {
			if rest[0] != ',' {
				return nil, fmt.Errorf("a list of containers has %q between two of them", rest[0])
			}
			rest = bytes.TrimSpace(rest[1:])
		}
		s, err := l.one(rest)
		if err != nil {
			return nil, err
		}
		next[s.got.ID] = s
		out = append(out, s.got)
		rest = bytes.TrimSpace(rest[len(s.raw):])
	}
	if len(rest) != 1 {
		return nil, errors.New("a list of containers does not end as one")
	}
	l.last = next
	return out, nil
}

// one gives the container at the beginning of text.
func (l *listed) one(text []byte) (summary, error) {
	if len(text) > len(idHead)+idLen && string(text[:len(idHead)]) == idHead {
		have, ok := l.last[string(text[len(idHead):len(idHead)+idLen])]
		if ok && bytes.HasPrefix(text, have.raw) {
			return have, nil
		}
	}
	var s summary
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&s.got); err != nil {
		return s, err
	}
	s.raw = bytes.Clone(text[:d.InputOffset()])
	return s, nil
}
