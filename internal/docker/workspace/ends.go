package workspace

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// ending is what the engine's events told of the end of a container since its last start: the
// signals that it was sent, by number, and that it died. An inspect document does not tell a
// process that ended by itself from one that was ordered to.
type ending struct {
	signals []string
	died    bool
}

// noticed are signals that programs take as something else than the order to end, where they are
// not the container's own signal to stop: HUP, USR1, USR2, CHLD, CONT, WINCH.
var noticed = []string{"1", "10", "12", "17", "18", "28"}

func (m *Reconciler) noteEnd(e dockerapi.Event) {
	if e.Subject != dockerapi.Container || e.Attributes[convert.LabelOwner] != m.o.Owner.ID() || e.Attributes[convert.LabelKind] != spec.KindWorkspace {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.ends[e.ID]
	switch e.Action {
	case "start", "destroy":
		delete(m.ends, e.ID)
		return
	case "kill":
		end.signals = append(slices.Clip(end.signals), e.Attributes["signal"])
	case "die":
		end.died = true
	default:
		return
	}
	m.ends[e.ID] = end
}

// endOf is how a container that has ended came to it.
func (m *Reconciler) endOf(c *container.InspectResponse) replace.End {
	m.mu.Lock()
	end := m.ends[c.ID]
	m.mu.Unlock()
	own := ""
	if c.Config != nil {
		own = signalNumber(c.Config.StopSignal)
	}
	switch {
	case slices.ContainsFunc(end.signals, func(s string) bool { return s == own || !slices.Contains(noticed, s) }):
		return replace.EndOrdered
	case end.died:
		return replace.EndOwn
	}
	return replace.EndUnknown
}

// signalNumber is the number of a signal that is written as a number or a name, with or without SIG.
func signalNumber(text string) string {
	if _, err := strconv.Atoi(text); err == nil {
		return text
	}
	return strconv.Itoa(int(unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))))
}

// completed is what the ledger keeps of a workspace that ran to its end. Before is what ran to its end
// before that, to which a host may go back.
type completed struct {
	Spec   digest.Digest `json:"spec"`
	Before digest.Digest `json:"before,omitempty"`
}

// completedKey is where: not under the container's ID, since it outlives the container.
func completedKey(name string) string { return "completed/" + name }

// completedOf names what is desired without that for which no container is made anew: a job that
// another service waits for from now on is the same job.
func completedOf(r *engine.Resource[Desired]) (completed, error) {
	d := r.Desired.Spec
	w := &d.Workspace
	w.Title, w.State, w.ReportOnly, w.Update, w.Restart, w.Limits = "", "", false, spec.Update{}, spec.Restart{}, spec.Limits{}
	w.Networks, w.DependsOn, d.Uses.Networks = nil, nil, nil
	raw, err := json.Marshal(struct {
		Spec  spec.Deployment
		Nonce string
	}{d, r.Desired.Nonce})
	return completed{Spec: digest.Of(raw)}, err
}

// isDone reports whether what is desired was run to its end before; of what is deleted, whether anything was.
func (m *Reconciler) isDone(ctx context.Context, r *engine.Resource[Desired]) (bool, error) {
	was, err := m.lastCompleted(ctx, r.Ref.ID)
	if err != nil || was == (completed{}) || r.Delete {
		return was != completed{}, err
	}
	is, err := completedOf(r)
	return was.Spec == is.Spec || was.Before == is.Spec, err
}

// lastCompleted is what the ledger keeps of a workspace, read once.
func (m *Reconciler) lastCompleted(ctx context.Context, name string) (was completed, err error) {
	m.mu.Lock()
	was, ok := m.completed[name]
	m.mu.Unlock()
	if ok {
		return was, nil
	}
	raw, ok, err := m.o.Ledger.Baseline(ctx, completedKey(name))
	if err != nil {
		return was, err
	}
	if ok && json.Unmarshal(raw, &was) != nil {
		was = completed{} // it runs once more
	}
	m.setCompleted(name, was)
	return was, nil
}

func (m *Reconciler) setCompleted(name string, c completed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.completed[name] = c
}

// Note implements replace.Handler.
func (h *handler) Note(a replace.Note) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil || c.run.State != convert.Exited || c.run.ExitCode != 0 {
		return err
	}
	is, err := completedOf(&h.r)
	if err != nil {
		return err
	}
	was, err := h.m.lastCompleted(h.ctx, h.r.Ref.ID)
	if err != nil {
		return err
	}
	if is.Before = was.Spec; was.Spec == is.Spec {
		is.Before = was.Before
	}
	raw, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if err := h.m.o.Ledger.SetBaseline(h.ctx, completedKey(h.r.Ref.ID), raw); err != nil {
		return err
	}
	h.m.setCompleted(h.r.Ref.ID, is)
	return nil
}

// forgetCompleted lets a workspace of the name run to its end again.
func (h *handler) forgetCompleted() error {
	if err := h.m.o.Ledger.Forget(h.ctx, completedKey(h.r.Ref.ID)); err != nil {
		return err
	}
	h.m.setCompleted(h.r.Ref.ID, completed{})
	return nil
}
