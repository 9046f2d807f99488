package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/session"
)

// local is an instant for people.
func local(t time.Time) string { return prose.Date(clock.FromTime(t)) }

func gpus(list []int) string {
	var out []string
	for _, g := range list {
		out = append(out, fmt.Sprint(g))
	}
	return strings.Join(out, ", ")
}

func (a sessions) show() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a session as a tree: parts, pods with their hosts, and phases",
		Example: "  steady session show lab\n  steady session show lab -o json",
	}
	return a.names(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.Session, error) {
		return c.Session(ctx, args[0])
	}, a.tree), nil)
}

func (a sessions) tree(s operator.Session) error {
	a.Printf("Session %s of %s is %s", s.Name, s.Owner, s.Summary.Word)
	if s.Summary.Reason != "" {
		a.Printf(": %s", s.Summary.Reason)
	}
	a.Printf("\n")
	t := s.Timeslot
	a.Printf("Comes up %s, starts %s, ends %s, gone by %s\n", local(t.ProvisionAt), local(t.Start), local(t.End), local(t.CleanupDeadline))
	if s.Alert {
		a.Printf("It needs a person. Next: steady attention\n")
	}
	a.Printf("\n")
	var rows [][]string
	for i, p := range s.Parts {
		rows = append(rows, partRows(&p, i == len(s.Parts)-1)...)
	}
	err := a.Details([]string{"part", "state", "host", "gpus", "why"}, rows)
	for _, p := range s.Parts {
		for _, pod := range p.Pods {
			for _, u := range pod.URLs {
				a.Printf("%s/%s: %s\n", p.Name, pod.Name, u)
			}
		}
	}
	return err
}

func partRows(p *session.PartStatus, last bool) (rows [][]string) {
	state := p.Phase
	if p.Stopped {
		state += ", stopped"
	}
	branch, rest := "├─ ", "│  "
	if last {
		branch, rest = "└─ ", "   "
	}
	rows = append(rows, []string{branch + p.Name, state, "", "", p.Reason})
	var below [][]string
	for _, pod := range p.Pods {
		below = append(below, []string{"pod " + pod.Name, pod.Phase, pod.Host, gpus(pod.GPUs), tried(pod.Reason, pod.Attempts)})
	}
	for _, j := range p.Phases {
		below = append(below, []string{"phase " + j.Name, j.State, "", "", attempted(&j)})
	}
	for i, row := range below {
		twig := "├─ "
		if i == len(below)-1 {
			twig = "└─ "
		}
		row[0] = rest + twig + row[0]
		rows = append(rows, row)
	}
	return rows
}

// attempted is the reason of a phase, and which attempt it is in.
func attempted(j *session.JobStatus) string {
	switch j.State {
	case session.PhasePending:
		return prose.Clauses(j.Reason, prose.Count(j.Most, "attempt")+" at most")
	case session.PhaseRunning:
		if at := fmt.Sprintf("attempt %d of %d", j.Attempts+1, j.Most); !strings.Contains(j.Reason, at) {
			return prose.Clauses(j.Reason, at)
		}
	}
	return j.Reason
}

func tried(reason string, attempts int) string {
	if attempts == 0 {
		return reason
	}
	return prose.Clauses(reason, prose.Count(attempts, "attempt")+" failed")
}

// ends are the states at which following a session ends, and the code that says so.
var ends = map[session.State]int{
	session.Ready: exit.Done, session.Running: exit.Done, session.Retired: exit.Done,
	session.Degraded: exit.Failed, session.Failed: exit.Failed, session.Orphaned: exit.Failed,
}

// pollEvery is how often a session is read though the log has nothing about it: time passes for it too.
const pollEvery = 5 * time.Second

func (a sessions) watch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch NAME", Short: "Follow a session until it is ready, or will not be",
		Long: `Prints each change of a session and of its parts, pods and phases, until it is Ready or
Running, or was so and is Retired (code 0), or is Degraded, Failed or Orphaned (code 1).`,
		Example: "  steady session watch lab\n  steady session watch lab -o json",
	}
	asJSON := a.PrintsLines(cmd)
	return a.names(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		var said string
		seen := map[string]string{}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		news := eventsOf(ctx, c, args[0])
		for {
			s, err := c.Session(ctx, args[0])
			if err != nil {
				return err
			}
			if err := a.changes(s, seen, &said, asJSON()); err != nil {
				return err
			}
			if code, over := ends[s.State]; over {
				if code != exit.Done {
					return exit.With(code, fmt.Errorf("session %s is %s; steady session show %[1]s says why", s.Name, s.State))
				}
				return nil
			}
			select {
			case <-news:
			case <-time.After(pollEvery):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}), nil)
}

// eventsOf has a value once there are further events about a session.
func eventsOf(ctx context.Context, c *operator.Client, name string) <-chan struct{} {
	news := make(chan struct{}, 1)
	go func() {
		q := operator.EventQuery{About: []event.Subject{{Kind: event.KindSession, Name: name}}, Tail: true}
		_ = watch.Follow(ctx, c, q, func(operator.Event) error { // without it the session is read now and then
			select {
			case news <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return news
}

// changes prints what is not as it was seen.
func (a sessions) changes(s operator.Session, seen map[string]string, said *string, asJSON bool) error {
	if asJSON {
		raw, err := json.Marshal(s)
		if err == nil && string(raw) != *said {
			*said = string(raw)
			_, err = fmt.Fprintln(a.Out, *said)
		}
		return err
	}
	lines := [][]string{{"session " + s.Name, string(s.State), s.Reason}}
	for _, p := range s.Parts {
		lines = append(lines, []string{"part " + p.Name, p.Phase, p.Reason})
		for _, pod := range p.Pods {
			lines = append(lines, []string{"pod " + p.Name + "/" + pod.Name, pod.Phase, pod.Reason})
		}
		for _, j := range p.Phases {
			lines = append(lines, []string{"phase " + p.Name + "/" + j.Name, j.State, j.Reason})
		}
	}
	for _, l := range slices.Backward(lines) { // what explains the rest comes first
		now := l[1]
		if l[2] != "" {
			now += ": " + l[2]
		}
		if seen[l[0]] != now {
			seen[l[0]] = now
			a.PrintFolded("%s  %s is %s\n", a.Now().Format(time.TimeOnly), l[0], now)
		}
	}
	return nil
}
