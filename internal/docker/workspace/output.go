package workspace

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// tail is the last output of a container that ended.
type tail struct {
	ended time.Time
	text  string
}

// check is how the health check of a container failed that was started at an instant.
type check struct {
	started string
	text    string
}

// Bounds of the output that is reported with a failure.
const (
	tailLines    = 3
	tailBytes    = 400
	commandBytes = 120
)

// tailOf reads the last lines of a container's log, once for each of its ends. A
// log that cannot be read (drivers keep it elsewhere) tells nothing.
func (m *Reconciler) tailOf(ctx context.Context, d *spec.Deployment, id string, ended time.Time) string {
	m.mu.Lock()
	have, ok := m.tails[id]
	m.mu.Unlock()
	if ok && have.ended.Equal(ended) {
		return have.text
	}
	var lines []string
	err := m.o.Engine.ContainerLogs(ctx, id, dockerapi.Logs{Tail: tailLines}, func(l dockerapi.LogLine) error {
		lines = append(lines, l.Text)
		return nil
	})
	if err != nil {
		m.o.Log.Debug("the last output of a container cannot be read", "container", id, "error", err)
		return ""
	}
	text, ok := m.redacted(d, lines)
	if !ok {
		return ""
	}
	text = lastBytes(text, tailBytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tails[id] = tail{ended, text}
	return text
}

// checkOf reports how a health check ended last that does not pass: its command, exit
// code and output. Of one that made its container unhealthy the first words stay
// until it is healthy again or started anew: what it prints may change every time.
func (m *Reconciler) checkOf(d *spec.Deployment, c *container.InspectResponse) string {
	h := c.State.Health
	if h == nil || h.Status == container.Healthy || h.FailingStreak == 0 || len(h.Log) == 0 || h.Log[len(h.Log)-1] == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.checks, c.ID)
		return ""
	}
	m.mu.Lock()
	have, ok := m.checks[c.ID]
	m.mu.Unlock()
	if ok && have.started == c.State.StartedAt {
		return have.text
	}
	last := h.Log[len(h.Log)-1]
	text := fmt.Sprintf("ended with exit code %d", last.ExitCode)
	if last.ExitCode < 0 {
		text = "did not end" // the engine's words follow
	}
	if command, ok := m.redacted(d, commandOf(c)); ok && command != "" {
		text = "`" + clipped(command, commandBytes) + "` " + text
	}
	lines := strings.Split(strings.TrimSpace(last.Output), "\n")
	if output, ok := m.redacted(d, lines[max(0, len(lines)-tailLines):]); ok {
		text += "; its output: " + cmp.Or(lastBytes(output, tailBytes), "none")
	}
	if h.Status == container.Unhealthy {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checks[c.ID] = check{c.State.StartedAt, text}
	}
	return text
}

// commandOf is what a container's health check runs.
func commandOf(c *container.InspectResponse) []string {
	if c.Config == nil || c.Config.Healthcheck == nil || len(c.Config.Healthcheck.Test) < 2 {
		return nil
	}
	return []string{strings.Join(c.Config.Healthcheck.Test[1:], " ")} // after CMD or CMD-SHELL
}

// redacted makes lines that a container wrote fit to be told: one line, without
// control characters and without the values of the workspace's secrets. It is not ok
// when a secret cannot be read: nobody knows what would have to be taken out.
func (m *Reconciler) redacted(d *spec.Deployment, lines []string) (text string, ok bool) {
	for i, l := range lines {
		if l = strings.TrimSpace(l); i > 0 {
			l = " | " + l
		}
		text += l
	}
	for _, name := range d.Workspace.Secrets() {
		v, err := m.secret(name)
		if err != nil {
			return "", false
		}
		text = secret.Clean(text, name, v)
	}
	return prose.Line(text), true
}

// lastBytes is the end of a text that is longer than a bound.
func lastBytes(text string, bound int) string {
	if len(text) <= bound {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-bound:], "")
}
