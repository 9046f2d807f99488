package hosting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// box is a container with its log, as an engine keeps and gives it: a read that
// follows ends when the container stops.
type box struct {
	id    string
	lines []dockerapi.LogLine
}

type containers struct {
	began time.Time

	mu    sync.Mutex
	all   []*box
	place *box // in the workspace's place
}

// put sets the container in the workspace's place; nil is none.
func (c *containers) put(b *box) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place = b
}

func (c *containers) find(context.Context, string) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == nil {
		return "", false, docker.ErrNoWorkspace
	}
	return c.place.id, true, nil
}

func (c *containers) read(_ context.Context, id string, l dockerapi.Logs, each func(dockerapi.LogLine) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.all, func(x *box) bool { return x.id == id })
	var lines []dockerapi.LogLine
	for _, line := range c.all[i].lines {
		if !line.Time.Before(l.Since) { // the moment itself belongs to it
			lines = append(lines, line)
		}
	}
	if l.Tail >= 0 && len(lines) > l.Tail {
		lines = lines[len(lines)-l.Tail:]
	}
	for _, line := range lines {
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

// say has a container write words, ms after the beginning.
func (c *containers) say(to *box, ms int, words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range words {
		to.lines = append(to.lines, dockerapi.LogLine{Time: c.began.Add(time.Duration(ms) * time.Millisecond), Text: w})
	}
}

// TestLogsGoOnAfterARestart follows a workspace through stops, starts and a
// replacement: every line is shown, once, also of one that ran between two looks,
// and also when several lines are of the same moment.
func TestLogsGoOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, next := &box{id: "a"}, &box{id: "b"}
		c := &containers{began: time.Now(), all: []*box{first, next}, place: first}
		c.say(first, 0, "too old")
		c.say(first, 1, "one", "two")
		var out strings.Builder
		l := &logs{find: c.find, read: c.read, stdout: &out, stderr: &out}
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("enough")
		done := make(chan error)
		go func() { done <- l.copy(ctx, "web", stream.LogsOptions{Follow: true, Tail: 2}) }()
		look := func() { time.Sleep(again); synctest.Wait() }
		synctest.Wait()
		c.say(first, 1, "three") // of the same moment as those before
		c.say(first, 2, "four", "five")
		look()
		look() // nothing new
		c.say(first, 2000, "six")
		look()
		c.put(nil) // between the two
		look()
		c.say(next, 1, "seven") // by another clock: all of it is new
		c.put(next)
		look()
		look()
		cancel(over)
		if err := <-done; !errors.Is(err, over) && !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if got := strings.ReplaceAll(out.String(), "\n", " "); got != "one two three four five six seven " {
			t.Errorf("shown: %s", got)
		}
	})
}

func TestLogsOfNoWorkspace(t *testing.T) {
	c := &containers{}
	l := &logs{find: c.find, read: c.read}
	if err := l.copy(t.Context(), "web", stream.LogsOptions{Follow: true}); !errors.Is(err, docker.ErrNoWorkspace) {
		t.Errorf("a workspace that is not there: %v", err)
	}
}
