package system

import (
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// containers sets container resources in the order of what they need. Intents
// are given whatever else happens, so that a failure holds up nothing that does
// not need what failed.
func (s *switching) containers() (engine.Decision, bool) {
	if s.title == nil { // a host without an engine; Prepare has refused such bundles
		return engine.Decision{}, false
	}
	children := make([]engine.Child, 0, len(s.order))
	for _, ref := range s.order {
		children = append(children, s.parts[ref].Child)
	}
	p := deploy.Next(deploy.Want{Set: s.bundle.Containers, Keep: s.keep, Run: s.want.Run, Title: s.title, Asks: s.asks}, children)
	switch {
	case len(p.Failed) > 0:
		bad := p.Failed[0]
		return engine.Fail(engine.Because(CodePartFailed, bad.Ref.String()+": "+bad.Reason.Message())).With(p.Intents...), true
	case !p.Done():
		return engine.Wait(0, engine.Because(CodeDeploying, "deploying "+p.Words())).With(p.Intents...), true
	}
	return engine.Decision{}, false
}
