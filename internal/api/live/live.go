// Package live follows what routes of the operator API answer, for all who look at it: each topic
// is asked once for everybody, at a pace that its cost decides, and what changed of its answer goes
// to every viewer. It knows nothing of HTTP.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// The pace. A topic is asked when the log moved, at most ten times a second, and rests thirty
// times as long as its answer took, but no longer than maxRest; all of them together take a
// quarter of the time of one core at most. What depends on time alone is asked every five seconds.
const (
	pace     = 100 * time.Millisecond
	rests    = 30
	maxRest  = 3 * time.Second
	share    = 3 // rests of all topics after one
	beat     = 5 * time.Second
	again    = 15 * time.Second      // between two looks at what a viewer may see
	patience = 10 * time.Second      // with one answer
	together = 10 * time.Millisecond // what changed of several topics so soon after each other is sent at once
)

// What is kept of a topic's changes, for viewers that are not up to date. One that is further
// behind gets the whole answer.
const (
	maxRecent      = 32
	maxRecentBytes = 64 << 10
)

// ErrTopics refuses too many topics; ErrUnknown a stream that is not open, or is somebody else's.
var (
	ErrTopics   = fmt.Errorf("a stream has at most %d topics", operator.MaxTopics)
	ErrUnknown  = errors.New("there is no such stream; it ended with its connection")
	ErrStopping = errors.New("the server is stopping")
)

// Config is what a hub stands on. All of it is required.
type Config struct {
	// Head is the newest record of the log.
	Head func() uint64
	Now  func() clock.Instant
	// Answer is the JSON that a topic's route answers, or why it does not.
	Answer func(ctx context.Context, topic string) ([]byte, *operator.TopicError)
	// Stopping is closed when streams have to end.
	Stopping <-chan struct{}
}

// Hub asks the topics of all open viewers.
type Hub struct {
	cfg Config

	mu      sync.Mutex
	topics  map[string]*topic
	viewers map[string]*Viewer // by id
	kick    chan struct{}      // a topic is new; has room for one
	stop    func()             // ends who asks; nil without viewers
	free    time.Time          // when the next topic may be asked
	// Who has something to be sent, and since when; of the goroutine that asks.
	news  map[*Viewer]struct{}
	since time.Time
}

// New returns a hub that nobody looks at.
func New(cfg Config) *Hub {
	return &Hub{cfg: cfg, topics: map[string]*topic{}, viewers: map[string]*Viewer{}, news: map[*Viewer]struct{}{}, kick: make(chan struct{}, 1)}
}

// topic is a route that viewers look at. All but its name is guarded by the hub.
type topic struct {
	name    string
	viewers map[*Viewer]struct{}
	seq     uint64 // the answer is not older
	version uint64 // counts the answers that differ from the one before; zero: none yet
	answer  operator.Answer
	failed  *operator.TopicError
	whole   []byte   // the answer as an event, once somebody needed it
	recent  [][]byte // the last changes as events, up to version
	asked   time.Time
	rest    time.Duration
	moved   bool // by something else than the log
}

// due is when a topic has to be asked, as long as head is the newest record.
func (t *topic) due(head uint64) time.Time {
	switch {
	case t.version == 0:
		return t.asked
	case head > t.seq || t.moved:
		return t.asked.Add(t.rest)
	}
	return t.asked.Add(max(beat, t.rest))
}

// Moved has a topic asked again, at its pace, though the log did not move.
func (h *Hub) Moved(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[topic]; t != nil {
		t.moved = true
	}
}

// run asks topics until ctx ends.
func (h *Hub) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t, wait := h.next(time.Now())
		if t == nil && wait >= together || time.Since(h.since) >= together {
			for v := range h.news { // order-free: each is told
				v.tell()
			}
			clear(h.news)
		}
		if t != nil {
			h.ask(ctx, t)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-h.kick:
		case <-timer.C:
		}
	}
}

// next is the topic that has been due the longest, or how long to wait before looking again.
func (h *Hub) next(now time.Time) (first *topic, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait = pace // the log may move
	if pause := h.free.Sub(now); pause > 0 {
		return nil, pause
	}
	head := h.cfg.Head()
	var at time.Time
	for _, t := range h.topics { // order-free: the earliest, and by name among those that are alike
		due := t.due(head)
		if due.After(now) {
			wait = min(wait, due.Sub(now))
		} else if first == nil || due.Before(at) || due.Equal(at) && t.name < first.name {
			first, at = t, due
		}
	}
	return first, wait
}

// ask asks one topic, and has its viewers look when the answer is another one.
func (h *Hub) ask(ctx context.Context, t *topic) {
	h.mu.Lock()
	t.moved = false
	h.mu.Unlock()
	head, begun := h.cfg.Head(), time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	body, failed := h.cfg.Answer(ctx, t.name)
	cancel()
	f := operator.Frame{Topic: t.name, Seq: head, Error: failed}
	var now operator.Answer
	if failed == nil {
		var err error
		if now, err = object(body); err != nil {
			f.Error = &operator.TopicError{Status: 500, Detail: "the answer cannot be followed: " + err.Error()}
		}
	}
	news := f.Error != nil && (t.failed == nil || *t.failed != *f.Error)
	if f.Error == nil {
		news = changed(&f, t.answer, now)
	}
	var event []byte
	if news {
		event = encode(operator.EventTopic, head, f)
	}
	took := time.Since(begun)
	h.mu.Lock()
	defer h.mu.Unlock()
	t.seq, t.asked = head, time.Now()
	t.rest = min(max(rests*took, pace), maxRest)
	h.free = t.asked.Add(share * took)
	if !news {
		return
	}
	t.version++
	t.answer, t.failed, t.whole = now, f.Error, nil
	if f.Whole || f.Error != nil {
		t.whole = event
	}
	t.recent = append(t.recent, event)
	size := 0
	for i := len(t.recent) - 1; i >= 0; i-- {
		if size += len(t.recent[i]); size > maxRecentBytes || len(t.recent)-i > maxRecent {
			t.recent = append([][]byte(nil), t.recent[i+1:]...)
			break
		}
	}
	if len(h.news) == 0 {
		h.since = t.asked
	}
	for v := range t.viewers { // order-free: a set
		h.news[v] = struct{}{}
	}
}

// since appends the events that bring a viewer up to date who has a version of the answer.
func (t *topic) since(b []byte, version uint64) []byte {
	behind := t.version - version
	if version > 0 && behind <= uint64(len(t.recent)) {
		return append(b, bytes.Join(t.recent[uint64(len(t.recent))-behind:], nil)...)
	}
	if t.whole == nil {
		f := operator.Frame{Topic: t.name, Seq: t.seq, Error: t.failed}
		if t.failed == nil {
			f.Whole, f.Set = true, t.answer
		}
		t.whole = encode(operator.EventTopic, t.seq, f)
	}
	return append(b, t.whole...)
}

// encode is a server-sent event; one that is about a record has its sequence as id.
func encode(event string, seq uint64, data any) []byte {
	raw, err := json.Marshal(data)
	if err != nil { // none of these types can fail but for JSON that object let pass
		panic(err)
	}
	b := make([]byte, 0, len(raw)+64)
	b = fmt.Appendf(b, "event: %s\n", event)
	if seq > 0 {
		b = fmt.Appendf(b, "id: %d\n", seq)
	}
	b = append(b, "data: "...)
	b = append(b, raw...)
	return append(b, "\n\n"...)
}
