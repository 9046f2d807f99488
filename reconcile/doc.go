// Package reconcile brings resources to what is desired of them, and keeps them there.
//
// A [Reconciler] knows one kind of resource: it observes, decides (purely) and acts.
// A [Controller] owns everything else: when to observe, one turn at a time per
// resource, durable attempt counts, back-off, deadlines, escalation from child to
// parent, history, and the triggers that a change raises. A reconciler never writes
// a row.
//
// What is desired of a root is set by its owner: with [Controller.Apply], or in the
// owner's own transaction where the store is reconcile/sqlite, followed by
// [Controller.Enqueue]. What is desired of a child is set by its parent's decision.
//
// A kind of lamps, whole:
//
//	type lamp struct{ On bool }                  // what is desired
//	type toggle struct{ To bool }                // the only action
//	func (toggle) ActionName() string { return "toggle" }
//
//	type lamps struct{ lit map[string]bool }
//
//	func (l lamps) Observe(_ context.Context, r reconcile.Resource[lamp]) (bool, error) {
//		return l.lit[r.Ref.ID], nil
//	}
//
//	func (l lamps) Decide(v reconcile.View[lamp, bool]) reconcile.Decision {
//		want := v.Resource.Desired.On && !v.Resource.Delete
//		if v.Observed == want {
//			return reconcile.IsConverged(reconcile.Because("as-desired", ""))
//		}
//		return reconcile.Do(toggle{want}, reconcile.Because("wrong-state", "the lamp is not as desired"))
//	}
//
//	func (l lamps) Act(_ context.Context, r reconcile.Resource[lamp], a reconcile.Action) error {
//		l.lit[r.Ref.ID] = a.(toggle).To
//		return nil
//	}
//
//	c := reconcile.New(store) // of sqlite.Open
//	err := reconcile.Register(c, "lamp", lamps{map[string]bool{}}, reconcile.Policy{})
//	_, err = c.Apply(ctx, reconcile.Upsert(reconcile.Ref{Kind: "lamp", ID: "desk"}, lamp{On: true}), reconcile.By("me"))
//	err = c.Run(ctx) // until ctx ends
//
// Times are in UTC with whole milliseconds; a zero time means none. The zero
// [Policy] is a usable one. Importing this package brings nothing beyond the
// standard library. Names that are aliases are of reconcile/engine, which is pure, so that a
// simulation runs the same code; only the author of a store needs that package.
package reconcile
