package event

// Bounds of the numbers that hosts and nodes give.
const (
	// MaxCounter is one that every reader of the log keeps whole, a browser as well.
	MaxCounter = 1 << 53
	// maxAhead is how many operations a node may have applied that the log lacks: those of a backup are fewer.
	maxAhead = 1 << 20
)

// Plausible reports whether a node may have applied operation claimed where the log ends with another.
func Plausible(logged, claimed uint64) bool {
	return claimed <= logged || claimed-logged <= maxAhead && claimed < MaxCounter
}

// NodePlaced says on which machine a node is, as an operator knows it: nodes of one share its ports. Empty is
// that nothing is said.
type NodePlaced struct {
	OnNode
	Machine string `json:"machine,omitempty"`
	Actor   string `json:"actor"`
	Reason  string `json:"reason,omitempty"`
}

// NodeQueried says that an operator had a device be queried, whether it would accept an object, which may have it run
// something.
type NodeQueried struct {
	OnNode
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Actor string `json:"actor"`
}

// EventType names of what operators do with nodes.
func (NodePlaced) EventType() string  { return "node.placed" }
func (NodeQueried) EventType() string { return "node.queried" }
