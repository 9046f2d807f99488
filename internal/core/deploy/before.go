package deploy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// before is how a declared resource stood when the run began.
type before struct {
	same   bool // the run does not change it
	broken bool // it did not work, and the bundle that a failure would lead back to has it too
}

// before compares what the child is set to with what the run declares. What was found when the run set the child is
// read from the child from then on: how it stands later is the run's own doing.
func (p *planner) before(id spec.ID, value any) before {
	c, ok := p.children[refOf(id)]
	if !ok || c.Delete || c.Phase.Terminal() {
		return before{}
	}
	var was spec.Desired[json.RawMessage]
	raw, err := json.Marshal(value)
	// What does not decode is of another version, and is changed.
	if err != nil || json.Unmarshal(c.Desired, &was) != nil || was.Suspended || !bytes.Equal(was.Spec, raw) {
		return before{}
	}
	return before{same: true, broken: BrokenBefore(c, was.Run, was.BrokenBefore, p.want.Run, p.want.Keep.Has(id))}
}

// BrokenBefore reports whether a part, which its run does not change, did not work when the run began. The run that
// set the part, and what that run had found, are read from the part: how the part stands later is the run's own doing.
// kept says that the bundle has the part to which a failure of the run would lead back.
func BrokenBefore(c engine.Child, since string, found bool, run string, kept bool) bool {
	grant, back := grantOf(run)
	if g, _ := grantOf(since); g == grant {
		return found
	}
	return broken(c) && (back || kept)
}

const backMark = " back "

// BackRun names the attempt to go back from the activation that is named after its grant.
func BackRun(grant string, attempt int) string { return grant + backMark + strconv.Itoa(attempt) }

// grantOf is the grant of an activation and of the attempts to go back from it.
func grantOf(run string) (grant string, back bool) {
	grant, _, back = strings.Cut(run, backMark)
	return grant, back
}

// broken reports whether a resource does not work, or is tried again after it did not.
func broken(c engine.Child) bool {
	return spec.Stage{Kind: c.Ref.Kind, Phase: c.Phase, Code: c.Reason.Code}.Broken() || c.Phase == engine.Retrying || c.Attempts > 0 && c.Phase != engine.Converged
}
