package operations

import (
	"context"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

type rolloutPath struct {
	AtRecord
	Rollout string `path:"rollout" maxLength:"200"`
	Members string `query:"members" enum:"all,none" default:"all" doc:"Whether its hosts are listed; host-list cuts and sorts them"`
}

func rolloutRow(s *plan.State, r *rollout.Rollout, q *plan.Explainer, now clock.Instant) operator.Rollout {
	row := operator.Rollout{Name: r.Name, Channel: r.Channel, Ref: r.Ref, Manifest: r.Manifest, Phase: string(r.Phase),
		Summary: s.RolloutSummary(r, now), Status: plan.Status(r), Reason: r.Reason, OpenedAt: r.OpenedAt, EndedAt: r.EndedAt}
	if row.Status == rollout.StatusHalted { // it has one name, and is not over
		row.Phase, row.EndedAt = rollout.StatusHalted, 0
	}
	if b := plan.FirstBlock(s, r, now); b != nil {
		row.Blocked = b.Message
	}
	row.Step = q.Step(r)
	return row
}

func queuedRow(w plan.Queued) operator.Rollout {
	row := operator.Rollout{Name: w.Rollout, Channel: w.Channel, Ref: strings.TrimPrefix(w.Rollout, w.Channel+"@"), Manifest: w.Manifest,
		Phase: operator.Queued, Summary: plan.QueuedSummary(w), Status: operator.Queued, QueuedAt: w.Since, Behind: w.Behind}
	if w.Block != nil {
		row.Blocked = w.Block.Message
	}
	return row
}

type rolloutsIn struct {
	AtRecord
	All bool `query:"all" doc:"Those that are pruned as well"`
}

func prunedRow(r plan.PrunedRollout) operator.Rollout {
	return operator.Rollout{Name: r.Name, Channel: r.Channel, Ref: strings.TrimPrefix(r.Name, r.Channel+"@"), Manifest: r.Manifest,
		Phase: string(rollout.Pruned), Summary: plan.PrunedSummary(r), Status: string(rollout.Pruned), Reason: plan.PrunedSummary(r).Reason,
		OpenedAt: r.OpenedAt, EndedAt: r.EndedAt}
}

func (h *Handler) rollouts(ctx context.Context, in *rolloutsIn) ([]operator.Rollout, error) {
	out := []operator.Rollout{}
	c, err := h.at(ctx, &in.AtRecord)
	if err != nil {
		return out, err
	}
	err = c.View(ctx, func(s *plan.State) {
		q := c.Explain(s)
		for _, w := range q.Queued() {
			out = append(out, queuedRow(w))
		}
		for _, d := range slices.Backward(s.Order) {
			if r := s.Rollouts[d]; r != nil {
				out = append(out, rolloutRow(s, r, q, c.Now()))
			}
		}
		for i := len(s.Pruned) - 1; i >= 0 && in.All; i-- {
			out = append(out, prunedRow(s.Pruned[i]))
		}
	})
	return out, err
}

func (h *Handler) rollout(ctx context.Context, in *rolloutPath) (operator.RolloutDetail, error) {
	var out operator.RolloutDetail
	c, err := h.at(ctx, &in.AtRecord)
	if err != nil {
		return out, err
	}
	var followed digest.Digest
	found, roster := false, c.Roster()
	err = c.View(ctx, func(s *plan.State) {
		out = operator.RolloutDetail{Now: c.Now(), Waves: []operator.Wave{}, Members: []operator.Member{}}
		r := s.Find(in.Rollout)
		if r == nil {
			if w, waits := c.Explain(s).FindQueued(in.Rollout); waits {
				found, out.Rollout = true, queuedRow(w)
				if w.Block != nil {
					out.WaveBlocks = []*gate.Block{w.Block}
				}
				return
			}
			var row plan.PrunedRollout
			if row, found = s.FindPruned(in.Rollout); found {
				out.Rollout, followed = prunedRow(row), row.Manifest
			}
			return
		}
		q := c.Explain(s)
		found = true
		out.Rollout, out.Gates = rolloutRow(s, r, q, c.Now()), plan.WaveGates(s, r, c.Now())
		out.Verbs = plan.VerbsOf(s, r, c.Now())
		out.WaveBlocks, out.Next = plan.Blocks(out.Gates), q.Upcoming(r, maxUpcoming)
		out.CancelOpens = plan.AfterCancel(s, r, c.Now())
		if s.Followed(r) {
			followed = r.Manifest
			return
		}
		for _, b := range s.BudgetsOf(r.Channel) {
			out.Budgets = append(out.Budgets, operator.Budget{Selector: b.Selector, Max: b.Max, InFlight: b.InFlight})
		}
		standing(c, s, r, in, roster, &out)
	})
	switch {
	case err != nil:
	case !found:
		err = h.neverOpened(ctx, in.Rollout)
	case followed != "":
		err = h.asEnded(ctx, in, followed, &out)
	}
	return out, err
}

// standing adds where the waves and hosts of a rollout stand.
func standing(c source, s *plan.State, r *rollout.Rollout, in *rolloutPath, roster map[string]fleet.RosterHost, out *operator.RolloutDetail) {
	for i := range r.Waves {
		out.Waves = append(out.Waves, waveRow(r, i))
	}
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		state, _ := s.HostState(leaf.Host, plan.Declares(roster, leaf.Host))
		out.Waves[leaf.Wave].States[string(state)]++
		if in.Members != "none" {
			m := member(c, s, r, i, roster)
			m.State = state
			out.Members = append(out.Members, m)
		}
	}
}

// asEnded adds where the waves and hosts of a rollout stood when it ended: today they stand in
// what followed. It adds nothing of what the log has no more.
func (h *Handler) asEnded(ctx context.Context, in *rolloutPath, manifest digest.Digest, out *operator.RolloutDetail) error {
	seq, err := h.endOf(ctx, out.Name, manifest)
	if err != nil || seq == 0 || in.At != 0 && seq > in.At {
		return err
	}
	m, err := h.c.At(ctx, seq)
	if err != nil {
		return err
	}
	return m.View(ctx, func(s *plan.State) {
		if r := s.Rollouts[manifest]; r != nil && r.Plan != nil {
			out.AsOf = &operator.AsOf{Record: seq, At: m.Now()}
			standing(m, s, r, in, m.Roster(), out)
		}
	})
}

// endOf is the last record of a rollout before its end was followed by another; zero where the
// log does not have it.
func (h *Handler) endOf(ctx context.Context, name string, manifest digest.Digest) (uint64, error) {
	base, err := h.c.Base(ctx)
	if err != nil {
		return 0, err
	}
	records, err := h.c.LastAbout(ctx, event.Subject{Kind: event.KindRollout, Name: name}, store.MaxRead)
	for i := range records {
		r := &records[i]
		ev, err := event.DecodeBody(r.Type, r.Body)
		moved, is := ev.(event.RolloutMoved)
		if err != nil || !is || moved.Manifest != manifest || !rollout.Phase(moved.To).Ended() {
			continue
		}
		seq := r.Seq
		if rollout.Phase(moved.To) == rollout.Superseded {
			seq--
		}
		if seq < base.Seq {
			return 0, nil
		}
		return seq, nil
	}
	return 0, err
}

// neverOpened reports what became of a rollout that is not known: a later release may have
// taken its place before it opened.
func (h *Handler) neverOpened(ctx context.Context, name string) error {
	channel, _, _ := strings.Cut(name, "@")
	later, at := "", clock.Instant(0)
	err := h.c.View(ctx, func(s *plan.State) {
		c := s.Channels[channel]
		if c == nil {
			return
		}
		i := slices.IndexFunc(c.Manifests, func(m fleet.ManifestRef) bool { return m.Rollout == name })
		if i > 0 {
			later = c.Manifests[i-1].Rollout
		}
	})
	if err == nil && later == "" {
		later, at, err = h.queuedInstead(ctx, name)
	} else if err == nil {
		at, err = h.releasedAt(ctx, later)
	}
	switch {
	case err != nil:
		return err
	case later == "":
		return unknownRollout(name)
	}
	when := ""
	if at != 0 {
		when = " at " + at.String()
	}
	return wire.Refuse(wire.ErrNotFound, "rollout %s never opened: %s took its place in the queue%s; steady rollout show %s", name, later, when, later)
}

// mostLooked bounds how many records of one subject are looked through.
const mostLooked = 100

// queuedInstead finds in the log what was queued in the place of a rollout, and when.
func (h *Handler) queuedInstead(ctx context.Context, name string) (string, clock.Instant, error) {
	records, err := h.c.LastAbout(ctx, event.Subject{Kind: event.KindRollout, Name: name}, mostLooked)
	for i := range records {
		ev, err := event.Decode(records[i].Entry)
		if queued, is := ev.(event.RolloutQueued); err == nil && is && queued.DroppedRollout == name {
			return queued.TargetRef, records[i].At, nil
		}
	}
	return "", 0, err
}

// releasedAt reports when the release came that brought a rollout, or zero.
func (h *Handler) releasedAt(ctx context.Context, rollout string) (clock.Instant, error) {
	_, ref, _ := strings.Cut(rollout, "@")
	records, err := h.c.LastAbout(ctx, event.Subject{Kind: event.KindRelease, Name: ref}, mostLooked)
	for i := range records {
		if records[i].Type == (event.ReleaseAccepted{}).EventType() {
			return records[i].At, nil
		}
	}
	return 0, err
}

// maxUpcoming is how many of the hosts that wait a rollout names.
const maxUpcoming = 10

func member(c source, s *plan.State, r *rollout.Rollout, i int, roster map[string]fleet.RosterHost) operator.Member {
	leaf, m := &r.Plan.Leaves[i], &r.Members[i]
	known := s.Hosts[leaf.Host]
	out := operator.Member{Host: leaf.Host, Wave: leaf.Wave, Status: m.Status.String(), Online: m.Online, Skipped: r.SkippedMember(i),
		Presence: presenceOf(leaf.Host, known, roster), Health: c.Assess(s, leaf.Host).Status}
	if known != nil && known.Freeze != nil {
		out.FrozenUntil = known.Freeze.Until
	}
	if out.Progress = s.Progress(r, leaf.Host); out.Progress != nil {
		out.Unready, out.MoreUnready = c.Unfinished(leaf.Host)
	}
	return out
}

func waveRow(r *rollout.Rollout, i int) operator.Wave {
	n, w := &r.Waves[i], r.Plan.Header.Waves[i]
	out := operator.Wave{Name: w.Name, Soak: w.Soak, Open: i <= r.Cursor, State: r.WaveState(i), Summary: plan.WaveSummary(r, i), Hosts: n.Members(), Counts: map[string]int{}, States: map[string]int{},
		Failures: n.Failures, Offline: n.Skipped()}
	for status, count := range n.By {
		if count > 0 {
			out.Counts[rollout.Status(status).String()] = count
		}
	}
	return out
}
