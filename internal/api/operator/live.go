package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// RouteLive is the stream of what topics answer. A topic is a GET route of this API without its
// prefix, with its query.
const RouteLive = Prefix + "/stream"

// MaxTopics bounds the topics of a stream.
const MaxTopics = 16

// The events of the stream. The first is EventStream with a LiveStream; then come EventTopic with a
// Frame each, and EventBeat with a Beat at least every five seconds.
const (
	EventStream = "stream"
	EventTopic  = "topic"
	EventBeat   = "beat"
)

// LiveStream names a stream to those who change its topics.
type LiveStream struct {
	ID string `json:"id"`
}

// Beat says that the stream is alive. What its topics answered is from the record Seq or a later
// one.
type Beat struct {
	Seq uint64        `json:"seq"`
	Now clock.Instant `json:"now"`
}

// Topics replace those of a stream.
type Topics struct {
	Topics []string `json:"topics" maxItems:"16"`
}

// Answer is what a route answers as an object: one that answers with a list has it as "items".
type Answer map[string]json.RawMessage

// Frame is how a topic's answer changed, or with Whole what it is. Seq is a record of the log
// that it is not older than, and never goes back. With Error there is no answer.
type Frame struct {
	Topic string `json:"topic"`
	Seq   uint64 `json:"seq"`
	Whole bool   `json:"whole,omitempty"`
	Set   Answer `json:"set,omitempty"`
	// Splice overwrites parts of strings that keep their length.
	Splice map[string][]Splice `json:"splice,omitempty"`
	Drop   []string            `json:"drop,omitempty"`
	Error  *TopicError         `json:"error,omitempty"`
}

// TopicError is why a topic has no answer, as its route says it.
type TopicError struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Splice is Text at an offset in characters, which are plain ASCII; in JSON [offset, text].
type Splice struct {
	At   int
	Text string
}

// MarshalJSON implements json.Marshaler.
func (s Splice) MarshalJSON() ([]byte, error) { return json.Marshal([]any{s.At, s.Text}) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Splice) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&s.At, &s.Text})
}

// Apply returns the answer after the frame; was is the one before. It is nil after an error.
func (f *Frame) Apply(was Answer) (Answer, error) {
	if f.Error != nil {
		return nil, nil
	}
	now := Answer{}
	if !f.Whole {
		maps.Copy(now, was)
	}
	for _, key := range f.Drop {
		delete(now, key)
	}
	maps.Copy(now, f.Set)
	for key, parts := range f.Splice { // order-free: each has its own key
		text := slices.Clone(now[key])
		for _, p := range parts {
			at := p.At + 1 // behind the quote
			if p.At < 0 || p.At > len(text) || at+len(p.Text) >= len(text) {
				return nil, fmt.Errorf("%s: %q does not fit at %d", key, p.Text, p.At)
			}
			copy(text[at:], p.Text)
		}
		now[key] = text
	}
	return now, nil
}

// LiveEvent is one event of the stream; Data is the JSON of what belongs to its Type.
type LiveEvent struct {
	Type string
	Data []byte
}

// Live opens a stream of topics and calls fn for each of its events, until ctx ends, the
// connection breaks or fn returns an error, and returns that.
func (c *Client) Live(ctx context.Context, topics []string, fn func(LiveEvent) error) error {
	return c.serverSent(ctx, strings.TrimPrefix(RouteLive, Prefix), url.Values{"topic": topics}, fn)
}

// SetTopics replaces the topics of an open stream.
func (c *Client) SetTopics(ctx context.Context, stream string, topics []string) error {
	return c.post(ctx, "/stream/"+url.PathEscape(stream), Topics{Topics: topics}, nil)
}

// maxServerSent bounds one server-sent event.
const maxServerSent = 64 << 20

// serverSent reads server-sent events until fn or the stream ends.
func (c *Client) serverSent(ctx context.Context, path string, q url.Values, fn func(LiveEvent) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, q, nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, maxServerSent)
	var e LiveEvent
	for sc.Scan() {
		if name, ok := strings.CutPrefix(sc.Text(), "event: "); ok {
			e.Type = name
		}
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		e.Data = data
		if err := fn(e); err != nil {
			return err
		}
	}
	if err := errors.Join(ctx.Err(), sc.Err()); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
