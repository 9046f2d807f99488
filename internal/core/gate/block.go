package gate

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Block is one rule's answer why something may not happen yet. Only this
// package makes one, in the four steps that begin with hold: a block that leaves
// something unsaid does not compile.
type Block struct {
	Code Code `json:"code"`
	// Words say what the rule found, for people.
	Words string `json:"words"`
	// WaitsFor is the event or state that would clear it.
	WaitsFor string `json:"waitsFor"`
	// ClearedBy is who can bring that about.
	ClearedBy string `json:"clearedBy"`
	// Earliest is when time can clear it, at the soonest: an event may do so
	// before. Zero when only an event can tell.
	Earliest clock.Instant `json:"earliest"`
	// Detail refines Code where a reader must tell cases apart.
	Detail string `json:"detail,omitempty"`
}

// never is the Earliest of a block that only an event can clear.
const never clock.Instant = 0

type (
	held    struct{ b Block }
	because struct{ b Block }
	waiting struct{ b Block }
)

// hold begins a block of a gate; detail may be empty.
func hold(code Code, detail string) held { return held{Block{Code: code, Detail: detail}} }

// because says what the rule found.
func (h held) because(format string, a ...any) because { return h.says(fmt.Sprintf(format, a...)) }

// says is because in words as they are, for what every tick of the planner asks, and
// why of each host.
func (h held) says(words string) because {
	h.b.Words = words
	return because(h)
}

// until says what clears the block, and when time can at the soonest.
func (h because) until(what string, earliest clock.Instant) waiting {
	h.b.WaitsFor, h.b.Earliest = what, earliest
	return waiting(h)
}

// by says who can bring that about.
func (h waiting) by(who string) *Block {
	h.b.ClearedBy = who
	return &h.b
}
