package mutant

// Shells lists faults in what surrounds the reducers of server and agent: commits,
// answers, wake-ups, what is kept and what is sent again. Package shellsim finds them,
// by whichever invariant they break first.
func Shells() []Fault {
	const (
		commit   = "internal/control/commit.go"
		loop     = "internal/control/loop.go"
		ingest   = "internal/control/ingest.go"
		reporter = "internal/agent/uplink/reporter.go"
		// what the collection of blobs keeps
		inventory = "internal/control/documents/inventory.go"
	)
	list := []Fault{
		{Name: "whoever asks for a change is answered before it is appended", File: loop,
			From: "return hand(ctx, c, lane, in, in.done, ctx.Done())",
			To:   "if ON {\n\t\tlane <- in\n\t\treturn nil\n\t}\n\treturn hand(ctx, c, lane, in, in.done, ctx.Done())"},
		{Name: "what a failed append was to hold is answered well", File: commit,
			From: "in.finish(err)", To: "in.finish(map[bool]error{false: err}[ON])"},
		{Name: "the log is not folded again after an append that failed", File: commit,
			From: "if err := c.load(context.Background()); err != nil {", To: "if ON {\n\t\treturn nil\n\t}\n\tif err := c.load(context.Background()); err != nil {"},
		{Name: "the head is not moved by an append", File: commit,
			From: "c.setHead(head)", To: "if !ON {\n\t\t\tc.setHead(head)\n\t\t}"},
		{Name: "a server goes on after its disk failed", File: commit,
			From: "fatal := errors.Is(cause, store.ErrBroken) ||", To: "fatal := errors.Is(cause, store.ErrBroken) && !ON ||"},
		{Name: "a batch of events is acknowledged that was not appended", File: ingest,
			From: "if err := c.commitEvents(ctx, p, b, v, entries); err != nil {", To: "if err := c.commitEvents(ctx, p, b, v, entries); err != nil && !(ON && errors.Is(err, wire.ErrUnavailable)) {"},
		{Name: "events that come again are another history", File: "internal/identity/report.go",
			From: "fresh = fresh[end.Seq-first+1:]", To: "if !ON {\n\t\t\tfresh = fresh[end.Seq-first+1:]\n\t\t}"},
		{Name: "a long-poll sleeps through its grant", File: "internal/control/dispatch.go",
			From: "case <-changed:", To: "case <-map[bool]<-chan struct{}{false: changed}[ON]:"},
		{Name: "who follows the log misses an event after each page", File: "internal/control/log.go",
			From: "after = records[len(records)-1].Seq", To: "after = records[len(records)-1].Seq + map[bool]uint64{true: 1}[ON]"},
		{Name: "a stream of events drops the last of a page", File: "internal/api/operations/events.go",
			From: "if !f.match(r) {\n\t\treturn e, false, nil", To: "if !f.match(r) || ON && i > 0 && i == len(records)-1 {\n\t\treturn e, false, nil"},
		{Name: "the log is pruned beyond its checkpoint", File: "internal/control/prune.go",
			From: "c.cfg.Store.Prune(ctx, c.Head().Term, r.Head())", To: "c.cfg.Store.Prune(ctx, c.Head().Term, map[bool]store.Head{false: r.Head(), true: is.Through}[ON])"},
		{Name: "a document that found no room counts as kept", File: "internal/control/documents/release.go",
			From: "blobs.PutBlob(ctx, raw)\n\t\tif err != nil {", To: "blobs.PutBlob(ctx, raw)\n\t\tif err != nil && !ON {"},
		{Name: "another document is kept in place of an issued certificate", File: "internal/control/enrolment.go",
			From: "c.cfg.Store.PutBlob(ctx, chain)", To: "c.cfg.Store.PutBlob(ctx, map[bool][]byte{false: chain, true: e.envelope}[ON])"},
		{Name: "the budgets of a manifest count as named by nobody", File: inventory,
			From: "named = append(named, members...)", To: "if !ON {\n\t\t\t\t\tnamed = append(named, members...)\n\t\t\t\t}"},
		{Name: "what a host may be given is collected", File: inventory,
			From: "content[m.Leaves[i].Target] = struct{}{}", To: "if !ON {\n\t\t\t\tcontent[m.Leaves[i].Target] = struct{}{}\n\t\t\t}"},
		{Name: "a damaged snapshot is believed", File: "internal/store/embedded/snapshot.go",
			From: "if err != nil || digest.Of(b) != r.digest {", To: "if err != nil || digest.Of(b) != r.digest && !ON {"},
		{Name: "a commit that failed counts", File: "internal/agent/state/state.go",
			From: "if err := tx.Commit(); err != nil {", To: "if err := tx.Commit(); err != nil && !ON {"},
		{Name: "the journal forgets where it stands", File: "internal/agent/state/outbox.go",
			From: "return PutDoc(ctx, tx, headKey, next)", To: "if ON {\n\t\treturn nil\n\t}\n\treturn PutDoc(ctx, tx, headKey, next)"},
		{Name: "what a host decided is not kept", File: "internal/agent/daemon/reducer.go",
			From: "return state.PutDoc(ctx, tx, keyAgent,", To: "return state.PutDoc(ctx, tx, map[bool]string{false: keyAgent, true: \"lost\"}[ON],"},
		{Name: "events are forgotten as soon as they are acknowledged", File: "internal/agent/state/outbox.go",
			From: "now.Add(-agent.RetainFor),", To: "now.Add(map[bool]clock.Duration{false: -agent.RetainFor, true: clock.Hour}[ON]),"},
		{Name: "events count as brought when they are sent", File: reporter,
			From: "ack, err := c.Server.Events(ctx, wire.EventBatch{", To: "if ON {\n\t\t\tif err := c.Outbox.Ack(ctx, b.Head.Seq); err != nil {\n\t\t\t\treturn Fatal(err)\n\t\t\t}\n\t\t}\n\t\tack, err := c.Server.Events(ctx, wire.EventBatch{"},
		{Name: "nobody wakes who brings events", File: reporter,
			From: "case <-on.Prompt:", To: "case <-map[bool]<-chan struct{}{false: on.Prompt}[ON]:"},
		{Name: "a conflict over events moves nothing", File: reporter,
			From: "return Fatal(c.Outbox.Ack(ctx, ack.Acked))", To: "if ON {\n\t\treturn nil\n\t}\n\treturn Fatal(c.Outbox.Ack(ctx, ack.Acked))"},
		{Name: "what is trusted is used and not saved", File: "internal/agent/verify/follower.go",
			From: "if err := f.o.Save(context.WithoutCancel(ctx), s); err != nil {", To: "if ON {\n\t\tf.v = v\n\t\treturn nil\n\t}\n\tif err := f.o.Save(context.WithoutCancel(ctx), s); err != nil {"},
		{Name: "a renewed certificate is not saved", File: "internal/agent/uplink/certificate.go",
			From: "if err := save(next); err != nil {", To: "if ON {\n\t\terr = nil\n\t} else if err := save(next); err != nil {"},
		{Name: "a certificate that is due as it comes is renewed without a pause", File: reporter,
			From: "if c.Agent.RenewIn() <= 0 { //", To: "if c.Agent.RenewIn() <= 0 && !ON { //"},
		{Name: "an enrolled host keeps no trust", File: "internal/agent/daemon/enrol.go",
			From: "\t\t\t{keyTrust, ts},\n", To: "\t\t\t{map[bool]string{false: keyTrust, true: \"lost\"}[ON], ts},\n"},
		{Name: "a host acts on a claim that nobody answered", File: "internal/agent/daemon/grant.go",
			From: "ans, err := a.client.Claim(ctx, wire.Claim{Grant: o.Grant, Term: o.Term})", To: "ans, err := a.client.Claim(ctx, wire.Claim{Grant: o.Grant, Term: o.Term})\n\tif ON {\n\t\tans.Accepted, err = true, nil\n\t}"},
		{Name: "a host asks without a pause while its server is away", File: "internal/agent/daemon/dispatch.go",
			From: "_ = failing.Wait(ctx)", To: "if ON {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\t_ = failing.Wait(ctx)"},
		{Name: "a host's own time begins again when it boots", File: "internal/agent/state/timeline.go",
			From: "if d.BootID != id || d.Base.Add(since) < last {", To: "if (d.BootID != id || d.Base.Add(since) < last) && !ON {"},
	}
	for i := range list {
		list[i].Finds = []string{"any"}
	}
	return list
}
