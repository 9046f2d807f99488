package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/nodesdk"
)

// BenchmarkEditBesideAttacks is the time from an edit until the node of the object is asked for it: alone, next to nodes that connect
// again and again with other rules, and next to connections that never say hello. What the attackers cost is part of it, as they
// are of the same process.
func BenchmarkEditBesideAttacks(b *testing.B) {
	attacks := []struct {
		name  string
		begin func(w *world)
	}{{"none", func(*world) {}}, {"floods", (*world).floods}, {"silent", func(w *world) { w.silence(400) }}}
	for _, attack := range attacks {
		b.Run(attack.name, func(b *testing.B) {
			w := newWorld(b)
			good := w.wireNode("good")
			good.from = "127.0.0.2"
			good.join()
			good.compared()
			asked := make(chan struct{})
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go good.serve(ctx, func(m nodesdk.Message) bool {
				if m.Request.Apply != nil {
					select {
					case asked <- struct{}{}:
					case <-ctx.Done():
						return true
					}
				}
				return false
			})
			attack.begin(w)
			for i := 0; b.Loop(); i++ {
				w.set("good", "news", fmt.Sprintf(`{"input": "%d"}`, i))
				<-asked
			}
		})
	}
}

// floods has nodes connect with other rules each time, whatever they are answered, until the test is over.
func (w *world) floods() {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range 3 {
		n := w.wireNode(fmt.Sprint("bad-", i))
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				n.edit = func(h *nodesdk.Hello) {
					h.Collections[0].Ignored = nil
					for j := range 30 {
						h.Collections[0].Ignored = append(h.Collections[0].Ignored, fmt.Sprint(turn, "-", j, strings.Repeat("f", 200)))
					}
				}
				_, _ = n.open(ctx)
				if n.conn != nil {
					_ = n.conn.CloseNow()
				}
			}
		})
	}
	w.t.Cleanup(func() { stop(); all.Wait() })
}
