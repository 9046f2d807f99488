package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
)

type eventsIn struct {
	After   uint64 `query:"after" doc:"Events after this sequence"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Host    string `query:"host" maxLength:"63"`
	Rollout string `query:"rollout" maxLength:"200"`
	Tail    bool   `query:"tail" doc:"The last events instead of the first"`
}

// filter picks records. Grants are tied to their rollout by the record that
// gave them, so a filter by rollout has to see the log from its start.
type filter struct {
	host, rollout string
	grants        map[string]bool
}

func newFilter(host, rollout string) *filter {
	return &filter{host: host, rollout: rollout, grants: map[string]bool{}}
}

func (f *filter) match(r *event.Record) bool {
	if f.rollout != "" && !f.ofRollout(r) {
		return false
	}
	return f.host == "" || r.Host == f.host
}

func (f *filter) ofRollout(r *event.Record) bool {
	var about struct {
		Rollout   string `json:"rollout"`
		TargetRef string `json:"target_ref"`
		Grant     string `json:"grant"`
	}
	if !bytes.Contains(r.Body, []byte(`"`+f.rollout+`"`)) && !bytes.Contains(r.Body, []byte(`"grant":`)) {
		return false
	}
	if json.Unmarshal(r.Body, &about) != nil {
		return false
	}
	if about.Rollout == f.rollout || about.TargetRef == f.rollout {
		if about.Grant != "" {
			f.grants[about.Grant] = true
		}
		return true
	}
	return about.Rollout == "" && f.grants[about.Grant]
}

func eventOf(r *event.Record) operator.Event {
	return operator.Event{Seq: r.Seq, At: r.At, Term: r.Term, Type: r.Type, Host: r.Host,
		Incarnation: r.Incarnation, HostSeq: r.HostSeq, Body: r.Body}
}

func (h *Handler) events(ctx context.Context, in *eventsIn) (*body[operator.EventPage], error) {
	page := operator.EventPage{Events: []operator.Event{}, Next: in.After}
	var err error
	switch {
	case in.Tail:
		err = h.tail(ctx, in, &page)
	default:
		err = h.scan(ctx, in, &page)
	}
	if err == nil && len(page.Events) == 0 && in.After == 0 {
		err = h.known(ctx, in)
	}
	return &body[operator.EventPage]{page}, err
}

// known refuses an empty answer about what does not exist: it would look as if nothing
// had happened to it.
func (h *Handler) known(ctx context.Context, in *eventsIn) error {
	if in.Host == "" && in.Rollout == "" {
		return nil
	}
	roster := h.c.Roster()
	var failed error
	err := h.c.View(ctx, func(s *plan.State) {
		if _, declared := roster[in.Host]; in.Host != "" && !declared && s.Hosts[in.Host] == nil {
			failed = unknownHost(in.Host)
		}
		_, pruned := s.FindPruned(in.Rollout)
		_, queued := h.c.Ask(s).FindQueued(in.Rollout)
		if in.Rollout != "" && s.Find(in.Rollout) == nil && !pruned && !queued {
			failed = unknownRollout(in.Rollout)
		}
	})
	return errors.Join(err, failed)
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (h *Handler) scan(ctx context.Context, in *eventsIn, page *operator.EventPage) error {
	f, from := newFilter(in.Host, in.Rollout), in.After
	if in.Rollout != "" {
		from = 0
	}
	return h.walk(ctx, from, func(r *event.Record) error {
		match := f.match(r)
		if r.Seq <= in.After {
			return nil
		}
		page.Next = r.Seq
		if match {
			page.Events = append(page.Events, eventOf(r))
		}
		if len(page.Events) >= in.Limit {
			return errEnough
		}
		return nil
	})
}

// tail finds the last events: at once without a filter by rollout.
func (h *Handler) tail(ctx context.Context, in *eventsIn, page *operator.EventPage) error {
	page.Next = h.c.Head().Seq
	if in.Host != "" && in.Rollout == "" {
		records, err := h.c.HostRecords(ctx, in.Host, in.Limit)
		for i := range slices.Backward(records) {
			page.Events = append(page.Events, eventOf(&records[i]))
		}
		return err
	}
	f, from := newFilter(in.Host, in.Rollout), uint64(0)
	if in.Rollout == "" && page.Next > uint64(in.Limit) {
		from = page.Next - uint64(in.Limit)
	}
	return h.walk(ctx, from, func(r *event.Record) error {
		if f.match(r) {
			page.Events = append(page.Events, eventOf(r))
			if len(page.Events) > in.Limit {
				page.Events = page.Events[1:]
			}
		}
		return nil
	})
}

// walk reads the log to its end or until fn returns an error.
func (h *Handler) walk(ctx context.Context, after uint64, fn func(*event.Record) error) error {
	for {
		records, err := h.c.Records(ctx, after, 1000)
		if err != nil || len(records) == 0 {
			return err
		}
		for i := range records {
			if err := fn(&records[i]); err != nil {
				if errors.Is(err, errEnough) {
					return nil
				}
				return err
			}
		}
		after = records[len(records)-1].Seq
	}
}

const (
	keepAlive    = 15 * time.Second
	writeTimeout = 10 * time.Second
)

// stream follows the log as server-sent events. The id of each is its sequence,
// from which Last-Event-ID goes on.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for key := range q {
		if !slices.Contains([]string{"after", "host", "rollout", "tail"}, key) {
			h.problem(w, refused(http.StatusUnprocessableEntity, fmt.Sprintf("unknown parameter %q", key)))
			return
		}
	}
	after := uint64(0)
	for _, s := range []string{q.Get("after"), r.Header.Get("Last-Event-ID")} {
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			h.problem(w, refused(http.StatusUnprocessableEntity, "after and Last-Event-ID are sequences of events"))
			return
		}
		after = n
	}
	if q.Get("tail") == "true" && r.Header.Get("Last-Event-ID") == "" {
		after = h.c.Head().Seq
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		h.problem(w, refused(http.StatusTooManyRequests, "too many streams of events are open; close some, or ask again later"))
		return
	}
	f := newFilter(q.Get("host"), q.Get("rollout"))
	from := after
	if f.rollout != "" {
		from = 0
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &sse{w: w, rc: http.NewResponseController(w)}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	_ = s.rc.SetReadDeadline(time.Time{})
	if s.write([]byte(": follow\n\n")) != nil {
		return
	}
	var alive sync.WaitGroup
	defer alive.Wait()
	defer cancel()
	alive.Go(func() { h.keepAlive(ctx, cancel, s, r) })
	err := h.c.Follow(ctx, from, func(records []event.Record) error { return s.events(records, f, after) })
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
		h.log.Debug("an event stream ended", "err", err)
	}
}

// keepAlive keeps the stream open while the token is good.
func (h *Handler) keepAlive(ctx context.Context, cancel func(), s *sse, r *http.Request) {
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if _, refused := h.admit(r, viewing); refused != nil || s.write([]byte(":\n\n")) != nil {
				cancel()
				return
			}
		}
	}
}

// sse writes a stream of events.
type sse struct {
	mu  sync.Mutex
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

func (s *sse) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	// On HTTP/2 a deadline that passes ends the stream even while nothing is
	// written.
	return s.rc.SetWriteDeadline(time.Time{})
}

func (s *sse) events(records []event.Record, f *filter, after uint64) error {
	s.buf.Reset()
	for i := range records {
		r := &records[i]
		if !f.match(r) || r.Seq <= after {
			continue
		}
		data, err := json.Marshal(eventOf(r))
		if err != nil {
			return err
		}
		fmt.Fprintf(&s.buf, "id: %d\nevent: %s\ndata: %s\n\n", r.Seq, r.Type, data)
	}
	if s.buf.Len() == 0 {
		return nil
	}
	return s.write(s.buf.Bytes())
}
