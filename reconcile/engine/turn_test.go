package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type poke struct{ N int }

func (poke) ActionName() string { return "poke" }

func instants(t *rapid.T, name string) instant {
	return instant(rapid.SampledFrom([]int64{0, 1, 500, 1000, 1001, 5000, 100_000, 10_000_000}).Draw(t, name))
}

var allPhases = []Phase{Pending, Acting, Verifying, Retrying, Waiting, Converged, Degraded, Drifted, Deleting, Failed, Deleted, Orphaned}

// anyRow draws a row, possible or not: the turn must be total.
func anyRow(t *rapid.T, name string) Row {
	gen := int64(rapid.IntRange(1, 3).Draw(t, name+" generation"))
	return Row{
		Ref: Ref{"k", name}, Generation: gen, Revision: 7, Desired: []byte("1"), Transitions: 4,
		Delete: rapid.Bool().Draw(t, name+" delete"), Phase: rapid.SampledFrom(allPhases).Draw(t, name+" phase"),
		Reason: NewReason("r", ""), Attempts: rapid.IntRange(0, 4).Draw(t, name+" attempts"),
		ConvergedGen: int64(rapid.IntRange(0, 3).Draw(t, name+" converged")),
		state: state{
			SetAt: instants(t, name+" set at"), ConvergeBy: instants(t, name+" converge by"), NotAfter: instants(t, name+" not after"),
			DeleteBy: instants(t, name+" delete by"), Steps: rapid.IntRange(0, 3).Draw(t, name+" steps"),
			RetryAt: instants(t, name+" retry at"), Action: rapid.SampledFrom([]string{"", `poke {"N":1}`}).Draw(t, name+" action"),
			ActionOK: rapid.Bool().Draw(t, name+" ok"), EpisodeAt: instants(t, name+" episode"), FailedAt: instants(t, name+" failed at"),
			GivenUp: rapid.Bool().Draw(t, name+" given up"), Lives: rapid.IntRange(0, 2).Draw(t, name+" lives"),
			Aborted:      rapid.Bool().Draw(t, name+" aborted"),
			EscalatedGen: int64(rapid.IntRange(0, 3).Draw(t, name+" escalated")), AckedGen: gen,
		},
	}
}

func diff(a, b Row) string { return cmp.Diff(a, b, cmp.AllowUnexported(Row{})) }

func anyDecision(t *rapid.T) Decision {
	why := NewReason(Code(rapid.SampledFrom([]string{"r", "other"}).Draw(t, "reason")), "")
	d := rapid.SampledFrom([]Decision{{}, IsConverged(why), Do(poke{1}, why), Do(poke{2}, why), Wait(why), WaitUntil(instant(1500).time(), why), Fail(why)}).Draw(t, "decision")
	if rapid.Bool().Draw(t, "with a child") {
		d = d.With(Upsert(Ref{"k", "child"}, rapid.IntRange(1, 2).Draw(t, "desired")))
	}
	return d
}

func anyPolicy(t *rapid.T) Policy {
	return Policy{
		Retry: RetryPolicy{Max: 3, Base: 100 * time.Millisecond, Cap: time.Second}, MaxSteps: 3,
		OnChildFailure: rapid.SampledFrom([]FailureAction{Continue, Abort}).Draw(t, "on child failure"),
		OnDrift:        rapid.SampledFrom([]DriftMode{Report, Enforce}).Draw(t, "on drift"),
		Revive:         ms(rapid.SampledFrom([]int64{0, 300}).Draw(t, "revive")),
	}.WithDefaults()
}

// checkRecord holds for every record of every step.
func checkRecord(t *rapid.T, in Input, rec Record) {
	row := in.Snap.Row
	phase, n := row.Phase, row.Transitions
	for _, tr := range rec.Transitions {
		if tr.From != phase || tr.N != n+1 {
			t.Fatalf("P8: transition %+v after phase %s #%d", tr, phase, n)
		}
		phase, n = tr.To, tr.N
	}
	switch {
	case rec.Row.Phase != phase || rec.Row.Transitions != n:
		t.Fatalf("P8: the row is %s #%d, its history ends in %s #%d", rec.Row.Phase, rec.Row.Transitions, phase, n)
	case rec.Write && rec.Row.Revision != row.Revision+1:
		t.Fatalf("revision %d after %d", rec.Row.Revision, row.Revision)
	case !rec.Write && diff(rec.Row, row) != "" && rec.Row.state.DeleteBy == row.state.DeleteBy:
		t.Fatalf("a change is not written: %s", diff(row, rec.Row))
	case !rec.Write && (len(rec.Intents)+len(rec.Raises)+len(rec.Verdicts) > 0 || rec.Act != nil):
		t.Fatalf("something is not written: %+v", rec)
	case rec.Wake.IsZero() != (rec.Why == 0):
		t.Fatal("a wake without a cause")
	case rec.Row.Phase.Terminal() && rec.Why != 0:
		t.Fatal("a terminal row wakes")
	case rec.Act != nil && (rec.Row.Phase != Acting || !rec.Act.DueBy.After(in.Now) || rec.Row.Attempts > in.Policy.Retry.Max):
		t.Fatalf("P4: begins %+v with %d attempts at %s", rec.Act, rec.Row.Attempts, in.Now)
	}
}

// TestTurnIsTotalAndSettles: for any row, children, decision and policy a turn
// gives a sound record, converged means no act (P3), and repeating it without a
// change in the world writes nothing more and does not wake at once.
func TestTurnIsTotalAndSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := anyPolicy(t)
		snap := Snapshot{Row: anyRow(t, "self")}
		if rapid.Bool().Draw(t, "has a child") {
			c := anyRow(t, "child")
			c.Parent = snap.Row.Ref
			snap.Children = []Row{c}
		}
		causes := CausesOf(Cause{Trigger: TriggerResync})
		now := max(1, instants(t, "now"))
		d := anyDecision(t)
		for round := range 12 {
			in := Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: now.time()}
			rec, step := BeforeObserve(in)
			if step == Proceed {
				rec = AfterDecide(in, d, nil)
				if d.Name() == "converged" && rec.Act != nil {
					t.Fatal("P3: an act although converged")
				}
			}
			checkRecord(t, in, rec)
			if rec.Act != nil {
				snap.Row = rec.Row
				out := Outcome{Class: Class(rapid.IntRange(0, 3).Draw(t, "class")), Reason: NewReason("acted", "")}
				in.Snap = &Snapshot{Row: rec.Row}
				after := AfterAct(in, out)
				checkRecord(t, in, after)
				return
			}
			if !rec.Write {
				if rec.Why != 0 && !rec.Wake.After(now.time()) {
					t.Fatalf("nothing to write at %d and wakes at %s for %v: it would spin", now, rec.Wake, rec.Why)
				}
				return
			}
			if round == 11 {
				t.Fatalf("still writing: %+v", rec)
			}
			snap = commit(t, snap, rec)
		}
	})
}

// commit applies a record to a snapshot as a store would.
func commit(t *rapid.T, snap Snapshot, rec Record) Snapshot {
	rows, _, err := Expand(rec, func(ref Ref) (*Row, error) {
		for _, c := range snap.Children {
			if c.Ref == ref {
				return &c, nil
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatalf("expand: %v", err)
	}
	next := Snapshot{Row: rec.Row, Children: rows}
	for _, c := range snap.Children {
		if len(rows) == 0 || rows[0].Ref != c.Ref {
			next.Children = append(next.Children, c)
		}
	}
	return next
}

// TestObserveFailedIsTotal is the same for a world that cannot be read.
func TestObserveFailedIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := anyPolicy(t)
		snap := Snapshot{Row: anyRow(t, "self")}
		causes := CausesOf(Cause{Trigger: TriggerResync})
		in := Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: max(1, instants(t, "now")).time()}
		if _, step := BeforeObserve(in); step != Proceed {
			return
		}
		rec := ObserveFailed(in, Outcome{Class: Class(rapid.IntRange(1, 3).Draw(t, "class")), Reason: NewReason("away", ""), Error: "away"})
		checkRecord(t, in, rec)
		if !rec.Write && rec.Why != 0 && !rec.Wake.After(in.Now) {
			t.Fatalf("wakes at %s, now %s", rec.Wake, in.Now)
		}
	})
}

// TestUpsertOfAGeneration: it is refused for any other resource than the one it was decided on.
func TestUpsertOfAGeneration(t *testing.T) {
	ref := Ref{"k", "a"}
	row := func(generation int64, p Phase) *Row {
		return &Row{Ref: ref, Generation: generation, Phase: p, Desired: []byte("1")}
	}
	for _, c := range []struct {
		cur    *Row
		expect int64
		refuse bool
	}{
		{nil, 0, false}, {nil, 1, true}, {row(2, Converged), 2, false}, {row(2, Converged), 1, true},
		{row(2, Converged), 0, true}, {row(2, Deleting), 0, true}, {row(2, Deleted), 0, false}, {row(2, Orphaned), 0, false}, {row(2, Deleted), 2, true},
	} {
		_, _, err := ApplyIntent(c.cur, nil, Upsert(ref, 2).WithGeneration(c.expect), time.Unix(1, 0), Cause{})
		if (err == ErrConflict) != c.refuse || err != nil && !c.refuse {
			t.Errorf("%+v, expected generation %d: %v", c.cur, c.expect, err)
		}
	}
}

// TestRequeueWithNothingToWrite: what is as recorded is looked at again when its decision asks for it.
func TestRequeueWithNothingToWrite(t *testing.T) {
	now, policy, reason := instant(1_000_000).time(), Policy{}.WithDefaults(), NewReason("as-desired", "")
	snap := Snapshot{Row: Row{Ref: Ref{Kind: "lamp", ID: "a"}, Generation: 1, ConvergedGen: 1, Phase: Converged, Reason: reason}}
	causes := CausesOf(Cause{Trigger: TriggerResync})
	for _, after := range []time.Duration{0, 7 * time.Minute} {
		d := IsConverged(reason)
		if after > 0 {
			d = d.RequeueAt(now.Add(after))
		}
		rec := AfterDecide(Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: now}, d, nil)
		if want := now.Add(after); rec.Write || (rec.Why != 0) != (after > 0) || after > 0 && !rec.Wake.Equal(want) {
			t.Errorf("after %s: writes %v, wakes at %s for %v", after, rec.Write, rec.Wake, rec.Why)
		}
	}
}

// TestWhatIsBelowHasTheReasonOfWhatIsAbove: children are deleted for the reason for which their parent is, over all
// turns that takes.
func TestWhatIsBelowHasTheReasonOfWhatIsAbove(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, in := range []struct {
		row  Row
		want string
	}{
		{Row{Delete: true, Phase: Deleting, Reason: NewReason(CodeDeleteRequested, "stopped by ann")}, "stopped by ann"},
		{Row{Delete: true, Phase: Waiting, Reason: NewReason(CodeDeletingChildren, "stopped by ann; "+goesFirst)}, "stopped by ann"},
		{Row{Delete: true, Phase: Deleting, Reason: NewReason(CodeTimeEnded, "its time ended")}, "its time ended"},
		{Row{Delete: true, Phase: Deleting, Reason: NewReason(CodeDeleteRequested, "")}, ""},
		{Row{Delete: true, Phase: Waiting, Reason: NewReason(CodeDeletingChildren, goesFirst)}, ""},
		{Row{Phase: Failed, Reason: NewReason(CodeChildFailed, "file/b: no"), state: state{Aborted: true}}, "dir/a failed"},
	} {
		in.row.Ref, in.row.Generation = Ref{Kind: "dir", ID: "a"}, 1
		child := Row{Ref: Ref{Kind: "file", ID: "b"}, Parent: in.row.Ref, Phase: Converged, Generation: 1}
		policy := Policy{}.WithDefaults()
		causes := CausesOf(Cause{Trigger: TriggerOperator})
		rec, _ := BeforeObserve(Input{Snap: &Snapshot{Row: in.row, Children: []Row{child}}, Policy: &policy, Causes: &causes, Now: at})
		if len(rec.Intents) != 1 || rec.Intents[0].Op != OpDelete || rec.Intents[0].Why != in.want {
			t.Errorf("%s: %+v, want %q", in.row.Reason, rec.Intents, in.want)
		}
	}
}
