package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// stage is a hub on routes that a test makes, in a bubble.
type stage struct {
	t    *testing.T
	hub  *Hub
	stop chan struct{}

	mu    sync.Mutex
	head  uint64
	took  time.Duration // by every answer
	asked map[string][]time.Time
	body  func(topic string, head uint64) (string, *operator.TopicError)
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, stop: make(chan struct{}), head: 1, asked: map[string][]time.Time{}}
	s.body = func(topic string, head uint64) (string, *operator.TopicError) {
		return fmt.Sprintf(`{"topic":%q,"at":%d}`, topic, head), nil
	}
	s.hub = New(Config{Stopping: s.stop, Now: func() clock.Instant { return 7 },
		Head: func() uint64 { s.mu.Lock(); defer s.mu.Unlock(); return s.head },
		Answer: func(_ context.Context, topic string) ([]byte, *operator.TopicError) {
			s.mu.Lock()
			s.asked[topic] = append(s.asked[topic], time.Now())
			took, head, body := s.took, s.head, s.body
			s.mu.Unlock()
			time.Sleep(took) // in a bubble
			text, failed := body(topic, head)
			return []byte(text), failed
		}})
	return s
}

func (s *stage) append(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head += n
}

func (s *stage) times(topic string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[topic])
}

// rights is what a viewer may see.
type rights struct {
	mu      sync.Mutex
	dead    error
	forbids string
}

func (r *rights) Alive() error { r.mu.Lock(); defer r.mu.Unlock(); return r.dead }

func (r *rights) Allows(topic string) *operator.TopicError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if topic == r.forbids {
		return &operator.TopicError{Status: 403, Detail: "not you"}
	}
	return nil
}

// tab is a viewer with what it was sent.
type tab struct {
	*Viewer
	s      *stage
	rights *rights
	shows  map[string]operator.Answer
	failed map[string]*operator.TopicError
	seqs   map[string]uint64
	wholes map[string]int
	beats  []operator.Beat
	id     string
}

func (s *stage) open(topics ...string) *tab {
	s.t.Helper()
	r := &rights{}
	v := testkit.Value(s.hub.Open("ada", topics, r))(s.t)
	return &tab{Viewer: v, s: s, rights: r, shows: map[string]operator.Answer{}, failed: map[string]*operator.TopicError{}, seqs: map[string]uint64{}, wholes: map[string]int{}}
}

// take takes what comes until a time is over.
func (b *tab) take(for_ time.Duration) error {
	b.s.t.Helper()
	ctx, cancel := context.WithTimeout(b.s.t.Context(), for_)
	defer cancel()
	for {
		sent, err := b.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		b.read(sent)
	}
}

func (b *tab) read(sent []byte) {
	b.s.t.Helper()
	for event := range bytes.SplitSeq(bytes.TrimSuffix(sent, []byte("\n\n")), []byte("\n\n")) {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(string(event), "event: "), "\n")
		_, data, _ := strings.Cut(rest, "data: ")
		switch kind {
		case operator.EventStream:
			var x operator.LiveStream
			testkit.Must(b.s.t, json.Unmarshal([]byte(data), &x))
			b.id = x.ID
		case operator.EventBeat:
			var x operator.Beat
			testkit.Must(b.s.t, json.Unmarshal([]byte(data), &x))
			if n := len(b.beats); n > 0 && x.Seq < b.beats[n-1].Seq {
				b.s.t.Errorf("a beat goes back from %d to %d", b.beats[n-1].Seq, x.Seq)
			}
			for topic, seq := range b.seqs {
				if seq > x.Seq && b.failed[topic] == nil && len(b.has) == 1 {
					b.s.t.Errorf("a beat is at %d, and %s was shown of %d", x.Seq, topic, seq)
				}
			}
			b.beats = append(b.beats, x)
		case operator.EventTopic:
			var f operator.Frame
			testkit.Must(b.s.t, json.Unmarshal([]byte(data), &f))
			if f.Seq < b.seqs[f.Topic] || !strings.HasPrefix(rest, fmt.Sprintf("id: %d\n", f.Seq)) {
				b.s.t.Errorf("%s goes back from %d to %d: %s", f.Topic, b.seqs[f.Topic], f.Seq, rest)
			}
			if f.Whole {
				b.wholes[f.Topic]++
			}
			a, err := f.Apply(b.shows[f.Topic])
			testkit.Must(b.s.t, err)
			b.shows[f.Topic], b.failed[f.Topic], b.seqs[f.Topic] = a, f.Error, f.Seq
		default:
			b.s.t.Errorf("event %q", kind)
		}
	}
}

// at is which record a topic shows.
func (b *tab) at(topic string) string { return string(b.shows[topic]["at"]) }

// moving appends to the log every few milliseconds, for a time.
func (s *stage) moving(every, for_ time.Duration) {
	for end := time.Now().Add(for_); time.Now().Before(end); time.Sleep(every) { // in a bubble
		s.append(1)
	}
}

// TestTopicIsAskedOnceForAll at most ten times a second while the log moves, and each five seconds while it rests.
func TestTopicIsAskedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		a, b := s.open("/x"), s.open("/x", "/y")
		testkit.Must(t, a.take(time.Second))
		if n := len(s.times("/x")); n != 1 || a.at("/x") != "1" || a.id != a.ID {
			t.Fatalf("asked %d times, shows %s", n, a.at("/x"))
		}
		testkit.Must(t, a.take(20*time.Second))
		if n := len(s.times("/x")); n < 4 || n > 5 {
			t.Errorf("asked %d times in 21 s at rest", n)
		}
		if n := len(a.beats); n < 4 || n > 7 {
			t.Errorf("%d beats in 21 s", n)
		}
		before := len(s.times("/x"))
		go s.moving(2*time.Millisecond, 10*time.Second)
		testkit.Must(t, a.take(11*time.Second))
		if n := len(s.times("/x")) - before; n < 95 || n > 103 {
			t.Errorf("asked %d times in 10 s of a log that moves", n)
		}
		testkit.Must(t, b.take(time.Second))
		if a.at("/x") != fmt.Sprint(s.head) || b.at("/x") != a.at("/x") || b.at("/y") != a.at("/x") || a.wholes["/x"] != 1 {
			t.Errorf("the tabs show %s, %s and %s of %d, %d times whole", a.at("/x"), b.at("/x"), b.at("/y"), s.head, a.wholes["/x"])
		}
		if last := a.beats[len(a.beats)-1]; last.Seq != s.head || last.Now != 7 {
			t.Errorf("the last beat is %+v, the log ends at %d", last, s.head)
		}
		a.Close()
		b.Close()
		asked := len(s.times("/x"))
		s.append(1)
		time.Sleep(time.Minute)
		if n := len(s.times("/x")); n != asked || len(s.hub.topics) != 0 {
			t.Errorf("asked %d times for nobody, %d topics are kept", n-asked, len(s.hub.topics))
		}
	})
}

// TestCostlyTopicRests: thirty times as long as its answer took, and all of them take a quarter of the time.
func TestCostlyTopicRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.took = 20 * time.Millisecond
		b := s.open("/x")
		defer b.Close()
		go s.moving(5*time.Millisecond, 20*time.Second)
		testkit.Must(t, b.take(20*time.Second))
		asked := s.times("/x")
		for i := 1; i < len(asked); i++ {
			if d := asked[i].Sub(asked[i-1]); d < (rests+1)*s.took || d > (rests+10)*s.took {
				t.Errorf("asked again after %s", d)
			}
		}
		if len(asked) < 15 {
			t.Fatalf("asked %d times in 20 s", len(asked))
		}
		var many []string
		for i := range operator.MaxTopics {
			many = append(many, fmt.Sprintf("/%d", i))
		}
		testkit.Must(t, s.hub.Set("ada", b.ID, many))
		begun := time.Now()
		testkit.Must(t, b.take(operator.MaxTopics*4*s.took))
		var all []time.Time
		for _, name := range many {
			all = append(all, s.times(name)...)
		}
		slices.SortFunc(all, time.Time.Compare)
		if len(all) < operator.MaxTopics-1 || all[len(all)-1].Sub(begun) < 3*(operator.MaxTopics-2)*s.took {
			t.Errorf("%d topics were asked within %s", len(all), all[len(all)-1].Sub(begun))
		}
	})
}

// TestSlowViewerIsResynchronised: who reads late gets the changes while they are few, and else the whole.
func TestSlowViewerIsResynchronised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		slow, quick := s.open("/x"), s.open("/x")
		defer slow.Close()
		defer quick.Close()
		testkit.Must(t, slow.take(time.Second))
		step := func(away time.Duration) {
			go s.moving(50*time.Millisecond, away)
			testkit.Must(t, quick.take(away+time.Second))
			testkit.Must(t, slow.take(10*time.Millisecond))
			if slow.at("/x") != quick.at("/x") || slow.at("/x") != fmt.Sprint(s.head) {
				t.Errorf("after %s the slow one shows %s, the quick one %s of %d", away, slow.at("/x"), quick.at("/x"), s.head)
			}
		}
		step(2 * time.Second)
		if slow.wholes["/x"] != 1 {
			t.Errorf("few changes come whole")
		}
		step(20 * time.Second)
		if slow.wholes["/x"] != 2 || quick.wholes["/x"] != 1 {
			t.Errorf("the slow one got %d wholes, the quick one %d", slow.wholes["/x"], quick.wholes["/x"])
		}
		for _, x := range s.hub.topics {
			if len(x.recent) > maxRecent {
				t.Errorf("%d changes are kept", len(x.recent))
			}
		}
	})
}

// TestChangesThatAreLargeAreNotKept for viewers that are behind.
func TestChangesThatAreLargeAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.body = func(_ string, head uint64) (string, *operator.TopicError) {
			return fmt.Sprintf(`{"at":%d,"text":%q}`, head, strings.Repeat(string(rune('a'+head%20)), maxRecentBytes/4)), nil
		}
		b := s.open("/x")
		defer b.Close()
		testkit.Must(t, b.take(time.Second))
		s.moving(50*time.Millisecond, 3*time.Second)
		for _, x := range s.hub.topics {
			if size := len(bytes.Join(x.recent, nil)); size > maxRecentBytes || len(x.recent) == 0 {
				t.Errorf("%d bytes of %d changes are kept", size, len(x.recent))
			}
		}
		testkit.Must(t, b.take(time.Second))
		if b.at("/x") != fmt.Sprint(s.head) || b.wholes["/x"] != 2 {
			t.Errorf("shows %s of %d, %d times whole", b.at("/x"), s.head, b.wholes["/x"])
		}
	})
}

// TestTopicsChange: what stays comes as changes, what is new whole, and only the owner may.
func TestTopicsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := s.open("/x", "/x", "/y")
		defer b.Close()
		testkit.Must(t, b.take(time.Second))
		for _, no := range []error{s.hub.Set("eve", b.ID, nil), s.hub.Set("ada", "none", nil)} {
			if !errors.Is(no, ErrUnknown) {
				t.Errorf("refused with %v", no)
			}
		}
		if err := s.hub.Set("ada", b.ID, strings.Split(strings.Repeat("/ ", 16)+"/b", " ")); err != nil {
			t.Errorf("one topic many times: %v", err)
		}
		var many []string
		for i := range operator.MaxTopics + 1 {
			many = append(many, fmt.Sprint("/", i))
		}
		if err := s.hub.Set("ada", b.ID, many); !errors.Is(err, ErrTopics) {
			t.Errorf("too many: %v", err)
		}
		if _, err := s.hub.Open("ada", many, &rights{}); !errors.Is(err, ErrTopics) {
			t.Errorf("too many: %v", err)
		}
		testkit.Must(t, s.hub.Set("ada", b.ID, []string{"/y", "/z"}))
		testkit.Must(t, b.take(time.Second))
		asked := len(s.times("/x"))
		s.append(5)
		testkit.Must(t, b.take(time.Second))
		if b.at("/y") != "6" || b.at("/z") != "6" || b.at("/x") != "1" || len(s.times("/x")) != asked || b.wholes["/z"] != 1 {
			t.Errorf("shows %v", b.shows)
		}
		if names := slices.Sorted(maps.Keys(s.hub.topics)); !slices.Equal(names, []string{"/y", "/z"}) {
			t.Errorf("topics %v are kept", names)
		}
	})
}

// TestFailureOfARouteIsSaid once, and the answer comes whole when it is there again.
func TestFailureOfARouteIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		ok := s.body
		b := s.open("/x")
		defer b.Close()
		testkit.Must(t, b.take(time.Second))
		for i, body := range []func(string, uint64) (string, *operator.TopicError){
			func(string, uint64) (string, *operator.TopicError) {
				return "", &operator.TopicError{Status: 404, Detail: "gone"}
			},
			func(string, uint64) (string, *operator.TopicError) { return "7", nil },
		} {
			s.mu.Lock()
			s.body = body
			s.mu.Unlock()
			s.moving(50*time.Millisecond, time.Second)
			testkit.Must(t, b.take(time.Second))
			if e := b.failed["/x"]; e == nil || e.Status != []int{404, 500}[i] || b.seqs["/x"] == 0 {
				t.Fatalf("failed with %+v", e)
			}
			s.mu.Lock()
			s.body = ok
			s.mu.Unlock()
			s.append(1)
			testkit.Must(t, b.take(time.Second))
			if b.failed["/x"] != nil || b.at("/x") != fmt.Sprint(s.head) {
				t.Fatalf("shows %v of %d, failed with %v", b.shows, s.head, b.failed["/x"])
			}
		}
	})
}

// TestPermissionIsAskedAgain for each topic, and for the viewer itself.
func TestPermissionIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := s.open("/x", "/y")
		defer b.Close()
		b.rights.forbids = "/y"
		testkit.Must(t, s.hub.Set("ada", b.ID, []string{"/x", "/y"}))
		testkit.Must(t, b.take(time.Second))
		if e := b.failed["/y"]; e == nil || e.Status != 403 {
			t.Errorf("a topic that is not allowed: %+v", e)
		}
		b.rights.mu.Lock()
		b.rights.forbids = "/x"
		b.rights.mu.Unlock()
		testkit.Must(t, b.take(again))
		if e := b.failed["/x"]; e == nil || len(s.hub.topics) != 0 {
			t.Errorf("lost in the meantime: %+v, %d topics are asked", e, len(s.hub.topics))
		}
		b.rights.mu.Lock()
		b.rights.dead = errors.New("revoked")
		b.rights.mu.Unlock()
		if err := b.take(again + time.Second); err == nil || err.Error() != "revoked" {
			t.Errorf("a viewer that may see nothing goes on: %v", err)
		}
	})
}

// TestStreamsEndWithTheServer at once, and with their context.
func TestStreamsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := s.open("/x")
		defer b.Close()
		testkit.Must(t, b.take(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("without a context: %v", err)
		}
		close(s.stop)
		if err := b.take(time.Second); !errors.Is(err, ErrStopping) {
			t.Errorf("the server stops: %v", err)
		}
	})
}

// TestTopicMovesWithoutTheLog: what something else than the log changed is asked at the pace of
// the log.
func TestTopicMovesWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer close(s.stop)
		tab := s.open("/a", "/b")
		defer tab.Close()
		_ = tab.take(2 * time.Second)
		for range 100 {
			s.hub.Moved("/a")
			s.hub.Moved("/none")
		}
		_ = tab.take(time.Second)
		if a, b := len(s.times("/a")), len(s.times("/b")); a != 2 || b != 1 {
			t.Errorf("/a was asked %d times, /b %d times", a, b)
		}
	})
}
