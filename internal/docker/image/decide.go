package image

import (
	"cmp"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of images.
const (
	CodeMissing      engine.Code = "image-missing"
	CodeRetagged     engine.Code = "image-tag-moved"
	CodePlatform     engine.Code = "image-platform-differs"
	CodeRequested    engine.Code = "image-asked-for"
	CodeNewRun       engine.Code = "image-pulled-each-run"
	CodeUnrecorded   engine.Code = "image-not-recorded"
	CodeNames        engine.Code = "image-names-missing"
	CodeNeverPulled  engine.Code = "image-never-pulled"
	CodeCancelled                = spec.CodeCancelled
	CodeDiskPressure engine.Code = "disk-pressure"
	CodePoolFull     engine.Code = "pool-full"
	CodeLeft         engine.Code = "image-left-to-collection"
)

// Pull, Build and Load fetch the image. Tag gives names to the image of an ID
// that is there, and Record writes down one that is right already.
type (
	Pull  struct{}
	Build struct{}
	Load  struct{}
	Tag   struct {
		ID    string   `json:"id"`
		Names []string `json:"names"`
	}
	Record struct {
		ID string `json:"id"`
	}
)

// ActionName names the actions.
func (Pull) ActionName() string   { return "pull" }
func (Build) ActionName() string  { return "build" }
func (Load) ActionName() string   { return "load" }
func (Tag) ActionName() string    { return "tag" }
func (Record) ActionName() string { return "record" }

// again is when an image is checked again that waits for people or for room.
const again = 30 * time.Second

// Decide compares what the reference names with what was made for it. A
// difference in the ledger alone writes nothing to the engine.
func (m *Reconciler) Decide(v engine.View[Desired, Observed]) engine.Decision {
	if v.Resource.Delete {
		return engine.IsConverged(engine.NewReason(CodeLeft, "")) // see Collect
	}
	d := v.Resource.Desired
	if d.Suspended {
		return engine.IsConverged(engine.Reason{})
	}
	decision := decide(&d, &v.Observed)
	switch decision.Action().(type) {
	case nil, Tag, Record:
		return decision
	}
	switch o := &v.Observed; {
	case d.Verb == VerbCancel:
		return engine.Wait(engine.NewReason(CodeCancelled, "it was cancelled: retry begins it again"))
	case o.Short != "":
		return engine.WaitUntil(v.Now.Add(again), engine.NewReason(CodeDiskPressure, o.Short))
	}
	return decision
}

func decide(d *Desired, o *Observed) engine.Decision {
	n := &d.Spec
	fetch, ok := source(n)
	if !ok {
		return engine.Fail(engine.NewReason(engine.CodeBadDesired, "image "+n.Name+" names neither pull, build nor load: correct the declaration"))
	}
	never := n.Pull != nil && n.Pull.Policy == spec.PullNever
	if n.Pull != nil {
		if decision, done := pulled(d, o, never); done {
			return decision
		}
	}
	requested := d.Verb == VerbRebuild && (!o.Known || o.Made.Nonce != d.Nonce)
	switch made := o.Known && o.Made.Identity == Identity(n) && o.MadeThere; {
	case requested && !never:
		return engine.Do(fetch, engine.NewReason(CodeRequested, d.Nonce))
	case made && o.Made.ID == o.ID:
		return finish(o)
	case made && o.Older && o.Made.Nonce == "":
		// Two agents built it at once: all of them keep the first.
		return engine.Do(Record{o.ID}, engine.NewReason(CodeUnrecorded, ""))
	case made && !never && !strings.Contains(o.Ref, "@"): // a digest is no name to give
		return engine.Do(Tag{o.Made.ID, []string{o.Ref}}, engine.NewReason(CodeRetagged, retagged(o)))
	case o.ID != "" && right(n, o):
		return engine.Do(Record{o.ID}, engine.NewReason(CodeUnrecorded, ""))
	case o.ID == "":
		return engine.Do(fetch, engine.NewReason(CodeMissing, ""))
	}
	return engine.Do(fetch, engine.NewReason(CodeRetagged, retagged(o)))
}

// pulled is what a pull policy says; done if that is all.
func pulled(d *Desired, o *Observed, never bool) (engine.Decision, bool) {
	p := d.Spec.Pull
	switch {
	case never && o.ID == "":
		bring := "bring it (docker load, docker pull)"
		if imageref.Pinned(o.Ref) {
			bring = "bring it with docker pull (docker load gives no digest)"
		}
		return engine.Wait(engine.NewReason(CodeNeverPulled, "image "+o.Ref+" is not there and never pulled: "+bring+", or change the pull policy")), true
	case o.ID != "" && !platformFits(p.Platform, o.Platform):
		why := engine.NewReason(CodePlatform, o.Platform+" instead of "+p.Platform)
		if never {
			return engine.Fail(why), true
		}
		if o.Known && o.Made.ID == o.ID && o.Made.Run == d.Run {
			return engine.Fail(engine.NewReason(CodePlatform, why.Message+": the registry has no such platform under this reference")), true
		}
		return engine.Do(Pull{}, why), true
	case p.Policy == spec.PullAlways && (!o.Known || o.Made.Run != d.Run):
		return engine.Do(Pull{}, engine.NewReason(CodeNewRun, "")), true
	}
	return engine.Decision{}, false
}

// right reports whether what the reference names now is what is declared although
// the ledger does not know it: nothing was known of it, or nobody else brings it.
func right(n *spec.Image, o *Observed) bool {
	switch {
	case n.Build != nil:
		return !o.Known && o.Owned && o.Identity == string(Identity(n))
	case n.Load != nil:
		return false // nothing tells what an archive had
	case n.Pull.Policy == spec.PullNever:
		return true
	}
	return !o.Known
}

func finish(o *Observed) engine.Decision {
	if len(o.Missing) > 0 {
		return engine.Do(Tag{o.ID, o.Missing}, engine.NewReason(CodeNames, strings.Join(o.Missing, ", ")))
	}
	return engine.IsConverged(engine.Reason{})
}

func source(n *spec.Image) (engine.Action, bool) {
	switch {
	case n.Build != nil:
		return Build{}, true
	case n.Load != nil:
		return Load{}, true
	case n.Pull != nil:
		return Pull{}, true
	}
	return nil, false
}

func retagged(o *Observed) string {
	return o.Ref + " names " + short(cmp.Or(o.ID, "nothing")) + " instead of " + short(cmp.Or(o.Made.ID, "what was made"))
}

func short(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}
