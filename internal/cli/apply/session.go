package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// sessions has the verbs on sessions, and on what of them needs a person.
type sessions struct{ *command.Env }

// Sessions returns the command for sessions.
func Sessions(e *command.Env) *cobra.Command {
	a := sessions{e}
	return command.Group(command.GroupWatch, "session", "Sessions: containers on hosts of the fleet for a time, and gone after it",
		"  steady session preview -f lab.yaml\n  steady session create -f lab.yaml\n  steady session watch lab",
		a.create(), a.preview(), a.list(), a.show(), a.watch(), a.start(), a.stop(), a.cancel(), a.extend(), a.retryPhase(), a.reconcile(), a.token(), a.calendar(), a.template(), a.quota(), a.bin(), a.discard())
}

// names completes the first argument with the names of sessions, and the second with what of one more lists.
func (a sessions) names(cmd *cobra.Command, more func(*operator.Session) []string) *cobra.Command {
	return a.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, args []string, _ string) (names []string, err error) {
		switch {
		case len(args) == 0:
			all, err := c.Sessions(ctx)
			for _, s := range all {
				names = append(names, s.Name+"\t"+string(s.State))
			}
			return names, err
		case len(args) == 1 && more != nil:
			s, err := c.Session(ctx, args[0])
			return more(&s), err
		}
		return nil, nil
	})
}

func partNames(s *operator.Session) (names []string) {
	for _, p := range s.Parts {
		names = append(names, p.Name+"\t"+p.Phase)
	}
	return names
}

func phaseNames(s *operator.Session) (names []string) {
	for _, p := range s.Parts {
		for _, j := range p.Phases {
			names = append(names, p.Name+"/"+j.Name+"\t"+j.State)
		}
	}
	return names
}

// maxSession bounds what is read from standard input.
const maxSession = 1 << 20

// reads gives a command -f, and has the file read before any server is looked for.
func (a sessions) reads(cmd *cobra.Command, read func(file string, data []byte) []Problem) {
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file; - is standard input (required)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if file == "" {
			return exit.Badf("no file is given; give -f FILE, or -f - for standard input")
		}
		data, err := a.Input(file, maxSession)
		if err != nil {
			return exit.Bad(err)
		}
		return a.sound(file, read(file, data))
	}
}

// sound prints what is wrong with a file, and fails if that is more than warnings.
func (a sessions) sound(file string, problems []Problem) error {
	for _, p := range problems {
		fmt.Fprintln(a.Err, p)
	}
	if strictyaml.Fatal(problems) {
		return exit.Badf("nothing was asked of the server: %s is not as expected", file)
	}
	return nil
}

// asked is what the file of a session asks for.
type asked struct {
	*sessionfile.File
	from string
}

func (a sessions) readsSession(cmd *cobra.Command) *asked {
	in := new(asked)
	a.reads(cmd, func(file string, data []byte) (problems []Problem) {
		in.from = file
		in.File, problems = sessionfile.Read(file, data, a.Now())
		return problems
	})
	return in
}

// request is what is asked of the server. Parameters of a template are judged where they were written.
func (a sessions) request(ctx context.Context, c *operator.Client, in *asked) (n operator.NewSession, err error) {
	if in.Template != "" {
		t, err := c.SessionTemplate(ctx, in.Template)
		if err != nil {
			return n, err
		}
		_, found := session.Values(t.Parameters, in.Parameters)
		if err := a.sound(in.from, in.Find(found)); err != nil {
			return n, err
		}
	}
	return operator.NewSessionOf(&in.Spec, in.Parameters), nil
}

// placed prints what the server finds wrong with a session where it is in its file.
func (a sessions) placed(in *asked, err error) error {
	refused, ok := errors.AsType[*operator.Error](err)
	if !ok || len(refused.Problems) == 0 {
		return err
	}
	var found session.Problems
	for _, p := range refused.Problems {
		found = append(found, session.Problem{Path: p.Location, Message: p.Message})
	}
	for _, p := range in.Find(found) {
		fmt.Fprintln(a.Err, p)
	}
	return exit.Badf("the server accepts no such session; nothing was booked")
}

func (a sessions) create() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create", Short: "Ask for the session of a file",
		Long: `Reads a session from a file and asks the server for it. Its hosts are booked at once, its
containers come from provisionAt on, and all of it is gone by its cleanupDeadline. Times
in the file are such as 2026-03-01T09:00:00Z, or such as in 90m.

It prints the token with which events are sent to the session, which steady session token
prints again, and the secrets that were made for its pods, which nothing prints again. Code
8: the session is Pending, since a pod waits for a host; what it waits for, and when there is
likely room, is printed, and waits and room of the JSON have it.`,
		Example: "  steady session create -f lab.yaml\n  steady session create -f lab.yaml -o json",
	}
	in := a.readsSession(cmd)
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		n, err := a.request(ctx, c, in)
		if err != nil {
			return err
		}
		s, err := c.CreateSession(ctx, in.Name, n)
		if err != nil {
			return a.placed(in, err)
		}
		if err := a.Print(s, func() error { return a.created(&s) }); err != nil || len(s.Waits) == 0 {
			return err
		}
		return exit.Silently(exit.Waiting)
	}))
}

func (a sessions) created(s *operator.CreatedSession) error {
	name := s.Session.Name
	where, err := a.Context()
	if err != nil {
		return err
	}
	a.Printf("Session %s is asked for, from %s to %s\n", name, local(s.Session.Timeslot.Start), local(s.Session.Timeslot.End))
	for _, w := range s.Waits {
		a.Printf("It is Pending: pod %s waits for a host: %s\n", w.Pod, w.Reason)
	}
	if !s.Decided {
		a.Printf("Its hosts are not chosen yet\n")
	}
	a.Printf("Events for it: POST %s%s with Authorization: Bearer %s\n", strings.TrimSuffix(cmp.Or(where.Agents, where.Server), "/"), s.Path, s.EventToken)
	for _, x := range s.Secrets {
		a.Printf("Secret %s of pod %s, shown this once: %s\n", x.Name, x.Pod, x.Value)
	}
	a.Printf("What comes of it: steady session watch %s\n", name)
	return nil
}

func (a sessions) preview() *cobra.Command {
	cmd := &cobra.Command{
		Use: "preview", Short: "Say on which hosts a session would run now, and why; nothing is reserved",
		Long: `Reads a session from a file and says where its pods would go if it were asked for now. Code
1: one has no host. Pods of parts that wait for others are placed as if they came up at once.`,
		Example: "  steady session preview -f lab.yaml\n  steady session preview -f lab.yaml -o json",
	}
	in := a.readsSession(cmd)
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		n, err := a.request(ctx, c, in)
		if err != nil {
			return err
		}
		p, err := c.PreviewSession(ctx, in.Name, n)
		if err != nil {
			return a.placed(in, err)
		}
		if err := a.Print(p, func() error { return a.table(p) }); err != nil || p.Fits {
			return err
		}
		if !p.Room.IsZero() {
			return fmt.Errorf("pod %s has no host now, and likely has one from %s: a session that is asked for is Pending until then", p.Pods[0].Pod, local(p.Room))
		}
		return fmt.Errorf("pod %s has no host, and a session that is asked for is Pending until it has one; steady host list shows what hosts have, and owners in bounds which of them take sessions", p.Pods[0].Pod)
	}))
}

func (a sessions) table(p operator.SessionPreview) error {
	var rows [][]string
	for _, pod := range p.Pods {
		rows = append(rows, []string{pod.Pod, pod.Host, gpus(pod.GPUs), pod.Message})
	}
	if err := a.Table([]string{"pod", "host", "gpus", "why"}, rows); err != nil || p.Fits {
		return err
	}
	rows = nil
	for _, l := range p.Pods[0].LeftOut {
		rows = append(rows, []string{l.Host, l.Message})
	}
	a.Printf("\n")
	return a.Table([]string{"host", "left out since"}, rows)
}

func (a sessions) list() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions that are kept",
		Example: "  steady session list\n  steady session list -o json",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Session, error) {
		return c.Sessions(ctx)
	}, []string{"session", "state", "start", "end", "owner", "why"}, func(s operator.Session) []string {
		return []string{s.Name, s.Summary.Word, local(s.Timeslot.Start), local(s.Timeslot.End), s.Owner, s.Summary.Reason}
	})
}

// done makes a command that asks for something of a session and says what comes of it.
func (a sessions) done(cmd *cobra.Command, do func(ctx context.Context, c *operator.Client, args []string) (said string, err error)) *cobra.Command {
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		said, err := do(ctx, c, args)
		if err == nil {
			a.Printf("%s. What comes of it: steady session show %s\n", said, args[0])
		}
		return err
	})
}

func (a sessions) stop() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stop NAME [PART]", Short: "Take a session down, or one part of it", Args: cobra.RangeArgs(1, 2),
		Example: "  steady session stop lab\n  steady session stop lab web",
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		if len(args) == 2 {
			return "Part " + args[1] + " of session " + args[0] + " is to stop", c.SetSessionPart(ctx, args[0], args[1], true)
		}
		return "Session " + args[0] + " is to stop", c.StopSession(ctx, args[0])
	}), partNames)
}

func (a sessions) start() *cobra.Command {
	cmd := &cobra.Command{
		Use: "start NAME [PART]", Short: "Have a session come up now, or a part of it that was stopped", Args: cobra.RangeArgs(1, 2),
		Long: `Has a session come up now that was to come up later; its end stays. It is refused where others
have booked its hosts until then. With a part, starts one that was stopped.`,
		Example: "  steady session start lab\n  steady session start lab web",
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		if len(args) == 2 {
			return "Part " + args[1] + " of session " + args[0] + " is to start", c.SetSessionPart(ctx, args[0], args[1], false)
		}
		return "Session " + args[0] + " is to start", c.StartSession(ctx, args[0])
	}), partNames)
}

func (a sessions) cancel() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel NAME", Short: "Take back a session of which nothing has come up",
		Example: "  steady session cancel lab",
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		return "Session " + args[0] + " is cancelled", c.CancelSession(ctx, args[0])
	}), nil)
}

func (a sessions) extend() *cobra.Command {
	var end string
	var by time.Duration
	cmd := &cobra.Command{
		Use: "extend NAME", Short: "Move the end of a session, and its cleanup deadline by as much",
		Long:    `Moves the end of a session. It is refused where others have booked its hosts by then.`,
		Example: "  steady session extend lab --by 30m\n  steady session extend lab --end 2026-03-01T12:00:00Z",
	}
	cmd.Flags().StringVar(&end, "end", "", "the new end, such as 2026-03-01T12:00:00Z")
	cmd.Flags().DurationVar(&by, "by", 0, "how much later it ends; with a minus, how much sooner")
	var at time.Time
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if (end == "") == (by == 0) {
			return exit.Badf("give either --end or --by")
		}
		if end != "" {
			if at, err = time.Parse(time.RFC3339, end); err != nil {
				return exit.Badf("--end %q: expected a time such as %s", end, a.Now().UTC().Format(time.RFC3339))
			}
		}
		return nil
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		s, err := c.ExtendSession(ctx, args[0], operator.ExtendSession{End: at, By: clock.FromStd(by)})
		return "Session " + args[0] + " ends at " + local(s.End), err
	}), nil)
}

func (a sessions) retryPhase() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry-phase NAME PART/PHASE", Short: "Have a phase of a session begin anew",
		Example: "  steady session retry-phase lab web/grade",
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		part, phase, _ := strings.Cut(args[1], "/")
		if err := cmp.Or(fleet.CheckName(part), fleet.CheckName(phase)); err != nil {
			return "", exit.Badf("%q: expected PART/PHASE, such as web/grade", args[1])
		}
		return "Phase " + args[1] + " of session " + args[0] + " begins anew", c.RetrySessionPhase(ctx, args[0], part, phase)
	}), phaseNames)
}

func (a sessions) reconcile() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reconcile NAME", Short: "Look at everything of a session now",
		Example: "  steady session reconcile lab",
	}
	return a.names(a.done(cmd, func(ctx context.Context, c *operator.Client, args []string) (string, error) {
		return "Everything of session " + args[0] + " is checked", c.ReconcileSession(ctx, args[0])
	}), nil)
}

func (a sessions) token() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token NAME", Short: "Print the token with which events are sent to a session",
		Example: "  steady session token lab\n  curl -H \"Authorization: Bearer $(steady session token lab)\" ...",
	}
	return a.names(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.SessionEvents, error) {
		return c.SessionEvents(ctx, args[0])
	}, func(e operator.SessionEvents) error {
		a.Printf("%s\n", e.EventToken)
		return nil
	}), nil)
}
