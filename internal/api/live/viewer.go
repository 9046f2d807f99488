package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// Access is what one viewer may see.
type Access interface {
	// Alive returns why the viewer may see nothing any more, or nil.
	Alive() error
	// Allows returns why it may not see a topic, or nil.
	Allows(topic string) *operator.TopicError
}

// Viewer is one stream. Next is for one goroutine; Close has to follow Open.
type Viewer struct {
	ID     string
	hub    *Hub
	owner  string
	access Access
	news   chan struct{} // there is something to send; has room for one

	// What follows is guarded by the hub.
	has     map[*topic]uint64 // what it looks at, and which version it was sent
	pending []byte            // events of its own
	shown   uint64            // of the last beat
	beatAt  time.Time
	lookAt  time.Time
}

// Open begins a stream of an owner, who alone may change its topics.
func (h *Hub) Open(owner string, topics []string, access Access) (*Viewer, error) {
	now := time.Now()
	v := &Viewer{ID: rand.Text(), hub: h, owner: owner, access: access, news: make(chan struct{}, 1), has: map[*topic]uint64{},
		beatAt: now.Add(beat), lookAt: now.Add(again)}
	v.pending = encode(operator.EventStream, 0, operator.LiveStream{ID: v.ID})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := v.set(topics); err != nil {
		return nil, err
	}
	h.viewers[v.ID] = v
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		h.stop = func() { cancel(); running.Wait() }
	}
	return v, nil
}

// Close ends the stream. When it returns nothing is asked for it any more.
func (v *Viewer) Close() {
	h := v.hub
	h.mu.Lock()
	for t := range v.has { // order-free: each is left
		v.leave(t)
	}
	delete(h.viewers, v.ID)
	stop := func() {}
	if len(h.viewers) == 0 && h.stop != nil {
		stop, h.stop = h.stop, nil
	}
	h.mu.Unlock()
	stop()
}

// Set replaces the topics of an owner's open stream.
func (h *Hub) Set(owner, id string, topics []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.viewers[id]
	if v == nil || v.owner != owner {
		return ErrUnknown
	}
	return v.set(topics)
}

// set replaces the topics. One that is not allowed is answered with why at once.
func (v *Viewer) set(topics []string) error {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	if len(topics) > operator.MaxTopics {
		return ErrTopics
	}
	for t := range v.has { // order-free: each is left or stays
		if _, stays := slices.BinarySearch(topics, t.name); !stays {
			v.leave(t)
		}
	}
	for _, name := range topics {
		t := v.hub.topics[name]
		if t == nil {
			t = &topic{name: name, viewers: map[*Viewer]struct{}{}}
			v.hub.topics[name] = t
		}
		if no := v.access.Allows(name); no != nil {
			v.refuse(t, no)
			continue
		}
		if _, has := v.has[t]; !has {
			v.has[t], t.viewers[v] = 0, struct{}{}
		}
	}
	v.tell()
	select {
	case v.hub.kick <- struct{}{}:
	default:
	}
	return nil
}

// refuse takes the viewer from a topic and says why.
func (v *Viewer) refuse(t *topic, no *operator.TopicError) {
	v.leave(t)
	seq := v.hub.cfg.Head()
	v.pending = append(v.pending, encode(operator.EventTopic, seq, operator.Frame{Topic: t.name, Seq: seq, Error: no})...)
}

// leave takes the viewer from a topic, which ends with its last one.
func (v *Viewer) leave(t *topic) {
	delete(v.has, t)
	delete(t.viewers, v)
	if len(t.viewers) == 0 && v.hub.topics[t.name] == t {
		delete(v.hub.topics, t.name)
	}
}

// tell has Next look.
func (v *Viewer) tell() {
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// Next waits until there is something to send, and returns it. What changes while a slow viewer
// is sent something is not kept for it: it gets what is missing then, or the whole answer.
func (v *Viewer) Next(ctx context.Context) ([]byte, error) {
	for {
		now := time.Now()
		if !now.Before(v.lookAt) {
			v.lookAt = now.Add(again)
			if err := v.look(); err != nil {
				return nil, err
			}
		}
		b, wait := v.collect(now)
		if len(b) > 0 {
			return b, nil
		}
		timer := time.NewTimer(min(wait, v.lookAt.Sub(now)))
		select {
		case <-v.news:
		case <-timer.C:
		case <-ctx.Done():
		case <-v.hub.cfg.Stopping:
		}
		timer.Stop()
		select {
		case <-v.hub.cfg.Stopping:
			return nil, ErrStopping
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// look asks again what the viewer may see.
func (v *Viewer) look() error {
	if err := v.access.Alive(); err != nil {
		return err
	}
	v.hub.mu.Lock()
	defer v.hub.mu.Unlock()
	for t := range v.has { // order-free: each is left or stays
		if no := v.access.Allows(t.name); no != nil {
			v.refuse(t, no)
		}
	}
	return nil
}

// collect takes what the viewer was not sent yet, in the order of the log, with a beat where one
// is due or what it was sent makes another; wait is how long until the next.
func (v *Viewer) collect(now time.Time) (b []byte, wait time.Duration) {
	v.hub.mu.Lock()
	defer v.hub.mu.Unlock()
	b, v.pending = v.pending, nil
	topics := make([]*topic, 0, len(v.has))
	for t := range v.has { // order-free: they are sorted
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b *topic) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.name, b.name))
	})
	shown := v.hub.cfg.Head()
	for _, t := range topics {
		if has := v.has[t]; t.version > has {
			b = t.since(b, has)
			v.has[t] = t.version
		}
		shown = min(shown, t.seq)
	}
	shown = max(shown, v.shown)
	if !now.Before(v.beatAt) || len(b) > 0 && shown > v.shown {
		v.beatAt, v.shown = now.Add(beat), shown
		b = append(b, encode(operator.EventBeat, 0, operator.Beat{Seq: shown, Now: v.hub.cfg.Now()})...)
	}
	return b, v.beatAt.Sub(now)
}
