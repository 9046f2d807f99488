package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

// Result is what came of one resource.
type Result struct {
	Host   string `json:"host"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Did    string `json:"did"` // set, unchanged, removed, refused, or asked to do something
	Error  string `json:"error,omitempty"`
	State  string `json:"state,omitempty"` // with --wait
	Detail string `json:"detail,omitempty"`

	code    int
	version uint64 // of the managed layer, that set it or asked; 0: unknown
}

// What was done.
const (
	didSet       = "set"
	didUnchanged = "unchanged"
	didRemoved   = "removed"
	didRefused   = "refused"
)

// Changes carries changes to the server one by one and says what came of each.
// What one host refuses does not keep the rest.
type Changes struct {
	*command.Env
	// AllowMass consents to removing many resources at once.
	AllowMass bool
	// NotAfter is when hosts end what is set; 0 is never.
	NotAfter clock.Instant
	// Version is that of the one resource which is set, as it was read; 0 is whichever there is. Create refuses one that is there.
	Version uint64
	Create  bool

	sealer  *sealer // nil signs nothing
	client  *operator.Client
	reason  string
	table   bool
	after   uint64
	results []Result
	set     []Resource
}

// Begin notes where the log stands, so that a wait sees what follows.
func Begin(ctx context.Context, e *command.Env, c *operator.Client, reason string) (*Changes, error) {
	st, err := c.Status(ctx)
	return &Changes{Env: e, client: c, reason: reason, table: e.TableOutput(), after: st.Seq}, err
}

// Change has changes made, and finishes them.
func Change(ctx context.Context, e *command.Env, c *operator.Client, reason string, f watch.WaitFlags, do func(*Changes) error) error {
	s, err := Begin(ctx, e, c, reason)
	if err == nil {
		err = do(s)
	}
	if err != nil {
		return err
	}
	return s.Finish(ctx, f)
}

// Set sets a resource, and reports whether that changed anything.
func (s *Changes) Set(ctx context.Context, r Resource) (changed bool, err error) {
	envelope, err := s.sealer.seal(r, s.NotAfter)
	if err != nil {
		return false, err
	}
	ch, err := s.client.SetResource(ctx, r.Host, r.Kind, r.Name, operator.SetResource{Spec: r.Spec, NotAfter: s.NotAfter, Reason: s.reason, Envelope: envelope,
		Version: s.Version, Create: s.Create})
	s.set = append(s.set, r)
	did := didUnchanged
	if ch.Changed {
		did = didSet
	}
	return ch.Changed, s.note(r, did, ch.Resource, err)
}

// Remove removes a resource.
func (s *Changes) Remove(ctx context.Context, r Resource) error {
	return s.note(r, didRemoved, 0, s.client.RemoveResource(ctx, r.Host, r.Kind, r.Name, s.reason, s.AllowMass))
}

func (s *Changes) removeAll(ctx context.Context, list []Resource, allowMass bool) error {
	s.AllowMass = allowMass
	for _, r := range list {
		if err := s.Remove(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// note keeps a result and says it. Only the server's refusals let the rest go on.
func (s *Changes) note(r Resource, did string, version uint64, err error) error {
	res := Result{Host: r.Host, Kind: r.Kind, Name: r.Name, Did: did, version: version}
	if err != nil {
		if _, refused := errors.AsType[*operator.Error](err); !refused {
			return err
		}
		res.Did, res.Error, res.code = didRefused, err.Error(), codeOf(err)
	}
	s.results = append(s.results, res)
	if !s.table {
		return nil
	}
	screen := term.Of(s.Out, s.Getenv)
	words := screen.Paint(colorOf(res.Did), res.Did)
	if res.Error != "" {
		words += ": " + res.Error
	}
	_, werr := fmt.Fprintf(s.Out, "%s: %s\n", r.FullName(), words)
	return werr
}

func colorOf(did string) term.Color {
	switch did {
	case didRefused:
		return term.Bad
	case didUnchanged:
		return term.Faint
	}
	return term.Good
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*exit.Failure](command.RemoteError(err)); ok {
		return f.Code
	}
	return exit.Failed
}

// Finish waits if that was asked for, and ends with the code of the first refusal.
func (s *Changes) Finish(ctx context.Context, f watch.WaitFlags) error {
	return s.FinishWith(ctx, f, watch.OutcomesFor(s.Env, s.table))
}

// FinishWith is Finish with another view of the wait.
func (s *Changes) FinishWith(ctx context.Context, f watch.WaitFlags, show watch.OutcomeView) error {
	var waited error
	if f.Wait {
		waited = s.wait(ctx, f, show)
	}
	if err := s.Print(command.NonNil(s.results), func() error { return nil }); err != nil {
		return err
	}
	for _, r := range s.results {
		if r.code != 0 {
			return cmp.Or(waited, exit.Silently(r.code))
		}
	}
	return waited
}

// Request asks once for something of a resource.
func (s *Changes) Request(ctx context.Context, host string, id spec.ID, verb string) error {
	ch, err := s.client.Request(ctx, host, id.Kind, id.Name, verb, s.reason)
	return s.note(Resource{Host: host, ID: id}, "asked to "+verb, ch.Resource, err)
}

// Done reports whether nothing was refused.
func (s *Changes) Done() bool {
	return !slices.ContainsFunc(s.results, func(r Result) bool { return r.code != 0 })
}

type place struct {
	host string
	spec.ID
}

// needs lists what each resource that was set needs first.
func (s *Changes) needs() map[place][]spec.ID {
	hosts := map[string][]Resource{}
	for _, r := range s.set {
		hosts[r.Host] = append(hosts[r.Host], r)
	}
	out := map[place][]spec.ID{}
	for host, list := range hosts {
		for id, needs := range spec.Dependencies(Set(list)) {
			for _, n := range needs {
				out[place{host, id}] = append(out[place{host, id}], n.ID)
			}
		}
	}
	return out
}

func (s *Changes) wait(ctx context.Context, f watch.WaitFlags, show watch.OutcomeView) error {
	var targets []watch.Target
	needs := s.needs()
	for _, r := range s.results {
		// What nothing refers to is collected in its own time.
		collected := r.Did == didRemoved && (r.Kind == spec.KindImage || r.Kind == spec.KindSnapshot)
		if r.Did != didRefused && !collected {
			targets = append(targets, watch.Target{Host: r.Host, ID: spec.ID{Kind: r.Kind, Name: r.Name},
				Version: r.version, New: r.Did != didUnchanged, Gone: r.Did == didRemoved,
				Needs: needs[place{r.Host, spec.ID{Kind: r.Kind, Name: r.Name}}]})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	outcomes, err := f.For(ctx, s.client, s.after, targets, show)
	for _, o := range outcomes {
		for i := range s.results {
			if r := &s.results[i]; r.Host == o.Host && r.Kind == o.Kind && r.Name == o.Name {
				r.State, r.Detail = o.State, o.Detail
			}
		}
	}
	return err
}

// sealer signs entries for hosts that take no others.
type sealer struct {
	signer trust.Signer
	head   fleet.Document
}

// newSealer loads the override key of a folder. The version of entries is the
// time of signing, so that a later one counts.
func newSealer(keys string, now clock.Instant) (*sealer, error) {
	signer, v, err := keyring.SignerUnderRoot(keys, trust.RoleOverride)
	if err != nil {
		return nil, exit.Bad(err)
	}
	return &sealer{signer, fleet.Document{Fleet: v.Fleet(), Epoch: v.Epoch(), Version: uint64(now), IssuedAt: now}}, nil
}

// seal signs one resource for its host; a nil sealer signs nothing.
func (s *sealer) seal(r Resource, notAfter clock.Instant) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	return trust.SignManagedEntry(fleet.ManagedEntry{Document: s.head, Host: r.Host, Kind: r.Kind, Name: r.Name, Spec: string(r.Spec), NotAfter: notAfter}, s.signer)
}
