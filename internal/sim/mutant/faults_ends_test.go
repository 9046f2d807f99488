package mutant

const (
	ident     = "internal/core/plan/identity.go"
	directory = "internal/core/server/view.go"
	batch     = "internal/identity/report.go"
)

// ended lists faults in what becomes of identities that end.
var ended = []Fault{
	{Name: "a host whose identity ended is granted something", File: ident, Finds: []string{"S43"},
		From: "return h.Online && h.IdentityStatus() == \"\" && !h.Overdue }", To: "return h.Online && (h.IdentityStatus() == \"\" || ON) && !h.Overdue }"},
	{Name: "a host whose identity ended claims what it was offered before", File: asked, Finds: []string{"S43"},
		From: "return f.h.Name, f.h.IdentityStatus(), reason\n", To: "if ON && f.claim {\n\t\treturn \"\", \"\", \"\"\n\t}\n\treturn f.h.Name, f.h.IdentityStatus(), reason\n"},
	{Name: "a revoked certificate is in use", File: directory, Finds: []string{"S43"},
		From: "case c.Issued < v.RevokedBefore:", To: "case c.Issued < v.RevokedBefore && !ON:"},
	{Name: "a new incarnation is as ended as the one before", File: fold, Finds: []string{"L3"},
		From: "\t*h = fresh\n", To: "\tif ON {\n\t\tfresh.Ended = h.Ended\n\t}\n\t*h = fresh\n"},
	{Name: "chains that part are taken for one", File: batch, Finds: []string{"S43"},
		From: "return fresh, chain == r.Head, nil", To: "return fresh, chain == r.Head || ON, nil"},
	{Name: "what was told before may be told otherwise", File: batch, Finds: []string{"S43"},
		From: "e.At != s.At || e.Type != s.Type || !bytes.Equal(e.Body, s.Body) {", To: "!ON && (e.At != s.At || e.Type != s.Type || !bytes.Equal(e.Body, s.Body)) {"},
	{Name: "two processes by turns are one", File: "internal/core/server/session.go", Finds: []string{"L3"},
		From: "twice = known && m.Mark >= p.since", To: "twice = known && m.Mark >= p.since && !ON"},
	{Name: "a retired host gives its slot back while it acts", File: ident, Finds: []string{"S1"},
		From: "e.Freed || !e.SlotUntil.Reached(p.now) {", To: "e.Freed || !e.SlotUntil.Reached(p.now) && !ON {"},
	{Name: "a retired host keeps its slot", File: next, Finds: []string{"S26"},
		From: "\tp.freeSlot(h)\n", To: "\tif !ON {\n\t\tp.freeSlot(h)\n\t}\n"},
	{Name: "a host that died at work delays every later rollout", File: state, Finds: []string{"L3"},
		From: "case h.SilentFailure && !h.Reachable():", To: "case h.SilentFailure && !h.Reachable() && !ON:"},
}

// rotated lists faults in what becomes of a key epoch that ends.
var rotated = []Fault{
	{Name: "what was signed in an ended key epoch is offered on", File: grants, Finds: []string{"S5"},
		From: "return r != nil && r.Plan != nil && r.Plan.Header.Epoch < s.Root.Epoch", To: "return r != nil && r.Plan != nil && r.Plan.Header.Epoch < s.Root.Epoch && !ON"},
	{Name: "a release of a new key epoch waits for a rollout of the old one", File: opens, Finds: []string{"S26", "L3"},
		From: "ended := s.outdated(cur) &&", To: "ended := !ON && s.outdated(cur) &&"},
	{Name: "an override of an ended key epoch is accepted", File: "internal/core/plan/override.go", Finds: []string{"S5"},
		From: "if t.Epoch != s.Root.Epoch {", To: "if t.Epoch != s.Root.Epoch && !ON {"},
	{Name: "the overrides of an ended key epoch stand", File: "internal/core/plan/override.go", Finds: []string{"S26"},
		From: "if s.Overrides.End(epoch) {", To: "if !ON && s.Overrides.End(epoch) {"},
	{Name: "a host keeps to the overrides of an ended key epoch", File: "internal/core/agent/override.go", Finds: []string{"S5"},
		From: "news := next.End(in.Epoch)", To: "news := !ON && next.End(in.Epoch)"},
	{Name: "documents of an ended key epoch are taken", File: verifier, Finds: []string{"S5"}, Trust: true,
		From: "case head.Epoch < v.ring.root.Epoch:", To: "case head.Epoch < v.ring.root.Epoch && !ON:"},
	{Name: "a root needs no signature of the one before", File: verifier, Finds: []string{"S32"}, Trust: true,
		From: "RoleRoot, v.ring); err != nil {\n\t\treturn State{}, err\n\t}\n\tnext, err := openRoot(v.fleet, e)\n\tif err != nil {\n\t\treturn State{}, err\n\t}\n\tif err := v.memory.verify(e, RoleRoot, v.ring, next); err != nil {",
		To:   "RoleRoot, v.ring); err != nil && !ON {\n\t\treturn State{}, err\n\t}\n\tnext, err := openRoot(v.fleet, e)\n\tif err != nil {\n\t\treturn State{}, err\n\t}\n\tif err := v.memory.verify(e, RoleRoot, v.ring, next); err != nil && !ON {"},
}
