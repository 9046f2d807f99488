package nodesdk

import "encoding/json"

// Path is where a server accepts nodes, as a WebSocket over TLS 1.3. Every message is one
// text frame with a Message.
const Path = "/v1/node/ws"

// Subprotocol is the WebSocket subprotocol of this version.
const Subprotocol = "steady.node.v1"

// Version of the protocol. A server accepts its own and the one before.
const Version = 1

// Bounds of messages, in bytes, and of what is in them. A peer that sends more is
// disconnected.
const (
	MaxFromNode   = 5 << 20
	MaxFromServer = 1 << 20
	MaxDepth      = 32
	MaxObjects    = 10_000
)

// ExporterLabel is the label of the TLS exporter (RFC 8446 section 7.5), of 32 bytes, that
// a node signs together with the server's nonce: a signature is good for one connection.
const ExporterLabel = "EXPORTER-steady-node-v1"

// Types of messages.
const (
	TypeChallenge = "challenge" // server: the first message
	TypeHello     = "hello"     // node: answers it
	TypeWelcome   = "welcome"   // server: the session begins
	TypeRefused   = "refused"   // server: it does not, or ends; the connection is closed
	TypeRequest   = "request"   // server: one at a time
	TypeAnswer    = "answer"    // node: has the ID of the request
	TypeChanged   = "changed"   // node: the configuration changed, by somebody else
	TypeEffect    = "effect"    // node: what was acknowledged is in effect, or is not any more
	TypeNextKey   = "nextkey"   // node: announces its next key
)

// Message is one frame. Of the other fields the one that its type names is set.
type Message struct {
	Type string `json:"type"`
	ID   uint64 `json:"id,omitempty"` // of a request and its answer

	Challenge *Challenge `json:"challenge,omitempty"`
	Hello     *Hello     `json:"hello,omitempty"`
	Welcome   *Welcome   `json:"welcome,omitempty"`
	Refused   *Refused   `json:"refused,omitempty"`
	Request   *Request   `json:"request,omitempty"`
	Answer    *Answer    `json:"answer,omitempty"`
	Changed   *Changed   `json:"changed,omitempty"`
	Effect    *Effect    `json:"effect,omitempty"`
	NextKey   *NextKey   `json:"nextkey,omitempty"`
}

// Challenge has the node prove that it holds its key.
type Challenge struct {
	Versions []int  `json:"versions"` // of the protocol that the server speaks
	Fleet    string `json:"fleet"`
	Nonce    []byte `json:"nonce"` // 32 bytes
	Term     uint64 `json:"term"`  // of the server; a node refuses one below the highest it has seen
}

// Hello says who the node is and what it has.
type Hello struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	Key     []byte `json:"key"` // Ed25519
	// Signature is over SignedHello, by Key.
	Signature []byte `json:"signature"`
	// Token is the signed token of a node that registers, in the bytes of its envelope.
	Token []byte `json:"token,omitempty"`
	// Instance names the device's configuration: a device that was set up anew has another.
	Instance string `json:"instance"`
	// Machine names the computer whose ports the device uses.
	Machine string `json:"machine,omitempty"`
	Driver  string `json:"driver"`
	Program string `json:"program"` // and its version, of the node's side
	// Op is the number of the newest operation that was applied, zero for none.
	Op          uint64       `json:"op"`
	Collections []Collection `json:"collections"`
}

// SignedHello is what a node signs.
func SignedHello(c Challenge, node string, key, exporter []byte) []byte {
	return framed("steady/node-hello/v1", []byte(c.Fleet), []byte(node), key, c.Nonce, exporter)
}

// framed is parts, each with its length, after what they are for.
func framed(domain string, parts ...[]byte) []byte {
	var out []byte
	for _, part := range append([][]byte{[]byte(domain)}, parts...) {
		out = append(out, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// Welcome begins a session.
type Welcome struct {
	Session uint64 `json:"session"`
	Term    uint64 `json:"term"`
	// ReconnectWithin is in milliseconds: when the connection ends, all nodes of the server may have
	// lost theirs, and each comes back at a random instant of that time.
	ReconnectWithin int64 `json:"reconnectWithin,omitempty"`
}

// Refused says why there is no session.
type Refused struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Final says that trying again is of no use until somebody has acted.
	Final bool `json:"final,omitempty"`
	// RetryAfter is in milliseconds; zero leaves it to the node.
	RetryAfter int64 `json:"retryAfter,omitempty"`
}

// Codes of Refused.
const (
	CodeForbidden   = "forbidden"   // the key, token or signature is not accepted
	CodeRetired     = "retired"     // the node was retired
	CodeReplaced    = "replaced"    // another connection of the node took over
	CodeMalformed   = "malformed"   // a message could not be read
	CodeVersion     = "version"     // no version of the protocol is spoken by both
	CodeCollection  = "collection"  // a collection is of no kind that the server knows
	CodeUnavailable = "unavailable" // the server stops, or is in safe mode
	CodeTooMuch     = "too-much"    // more messages than a node may send
)

// Collection is a kind of objects that the device has, with the rules by which its own
// habits are no difference. A path names a field, its steps separated by slashes; * stands
// for any one step, and a path stands for all below it.
type Collection struct {
	// Kind is the driver's word for an object: 1 to 40 of a-z 0-9 . _ - . What the log has names
	// for, such as host and session, is reserved. Flow, tunnel and document are what every fleet has
	// commands of their own for; only a tunnel has more than one leg.
	Kind string `json:"kind"`
	// Sets are lists whose order means nothing, by path, with the member that names an
	// element; an empty one is a list of plain values.
	Sets map[string]string `json:"sets,omitempty"`
	// Secrets are values that never leave the node.
	Secrets []string `json:"secrets,omitempty"`
	// Ignored are fields that the device changes by itself: they are neither compared nor pushed.
	Ignored []string `json:"ignored,omitempty"`
	// Ports are fields with a port or an address that the device listens on; after a space
	// comes the protocol, which is tcp if not said.
	Ports []string `json:"ports,omitempty"`
}

// Request is what a server asks of a node. One of its fields is set.
type Request struct {
	Snapshot *SnapshotRequest `json:"snapshot,omitempty"`
	Apply    *Apply           `json:"apply,omitempty"`
	Validate *Validate        `json:"validate,omitempty"`
}

// SnapshotRequest asks for the whole configuration.
type SnapshotRequest struct{}

// Apply is an operation. The node applies it unless what it has is other than IfMatch; one
// that it applied before it acknowledges again.
type Apply struct {
	Op     uint64 `json:"op"`   // above all earlier ones of the node
	Term   uint64 `json:"term"` // of the server that decided it
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Delete bool   `json:"delete,omitempty"`
	// Config is the object as it is to be, whole.
	Config json.RawMessage `json:"config,omitempty"`
	// IfMatch is the ETag of the object that the operation may replace; empty where there
	// must be none.
	IfMatch string `json:"ifMatch,omitempty"`
}

// Validate asks whether the device would accept an object; nothing is changed.
type Validate struct {
	Kind   string          `json:"kind"`
	ID     string          `json:"id"`
	Config json.RawMessage `json:"config"`
}

// Answer is a node's answer to a request. One of its fields is set.
type Answer struct {
	Snapshot  *Snapshot  `json:"snapshot,omitempty"`
	Applied   *Applied   `json:"applied,omitempty"`
	Validated *Validated `json:"validated,omitempty"`
}

// Snapshot is a device's whole configuration at an instant.
type Snapshot struct {
	// Generation rises with every change of the configuration that the node has seen.
	Generation uint64 `json:"generation"`
	Op         uint64 `json:"op"` // the newest operation that was applied
	// Complete says that Objects are all of the collections' objects. If it is not set, Error
	// says why, and nothing is concluded from what is not there.
	Complete bool     `json:"complete"`
	Error    string   `json:"error,omitempty"`
	Instance string   `json:"instance"`
	Objects  []Object `json:"objects"`
}

// Object is one object as the device has it, in normal form, with keyed digests in the place
// of secrets.
type Object struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// ETag changes with the object, its secrets included.
	ETag string `json:"etag"`
	// Op is the newest operation on the object that was applied, zero for none, and OpETag
	// the ETag right after it: another ETag is somebody else's change.
	Op     uint64          `json:"op,omitempty"`
	OpETag string          `json:"opEtag,omitempty"`
	Config json.RawMessage `json:"config"`
}

// Outcome is what came of an operation.
type Outcome string

// The outcomes.
const (
	OutcomeApplied  Outcome = "applied"
	OutcomeAlready  Outcome = "already"  // it was applied before, or the object was like that
	OutcomeConflict Outcome = "conflict" // the node has something else than IfMatch; nothing was changed
	OutcomeInvalid  Outcome = "invalid"  // the device refused it; nothing was changed
	OutcomeFailed   Outcome = "failed"   // the device has not what was asked; trying again may help
	OutcomeUnknown  Outcome = "unknown"  // it may have been applied, in part or whole
)

// Applied answers an operation.
type Applied struct {
	Op      uint64  `json:"op"`
	Outcome Outcome `json:"outcome"`
	Code    string  `json:"code,omitempty"`
	Error   string  `json:"error,omitempty"` // free of secrets
	// Object is what the device has now; nothing where there is none.
	Object *Object `json:"object,omitempty"`
	// Want is what was asked as the device spells it, with digests in the place of secrets;
	// left out where that is what was asked. An object that was applied is one of the two
	// under the collection's rules, or the operation counts as failed.
	Want json.RawMessage `json:"want,omitempty"`
	// Generation is that of the configuration after the operation.
	Generation uint64 `json:"generation"`
	// Effect says whether it is in effect, where the device can tell.
	Effect string `json:"effect,omitempty"`
}

// Effects.
const (
	InEffect    = "in effect"
	NotInEffect = "not in effect"
)

// Validated answers a Validate. An empty list of problems is a yes.
type Validated struct {
	// Supported is false where the device cannot tell.
	Supported bool      `json:"supported"`
	Problems  []Problem `json:"problems,omitempty"`
}

// Problem is what a device finds wrong with an object.
type Problem struct {
	Field   string `json:"field,omitempty"` // a path, or empty
	Message string `json:"message"`
}

// Changed says that somebody else changed the configuration.
type Changed struct {
	Generation uint64 `json:"generation"`
}

// Effect says whether an object that was acknowledged is in effect.
type Effect struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Effect string `json:"effect"`
	Detail string `json:"detail,omitempty"`
}

// NextKey announces the key that the node uses from its next connection on. The server
// accepts both until then.
type NextKey struct {
	Key []byte `json:"key"`
	// Proof is the new key's signature over SignedNextKey, so that nobody announces a key
	// that they do not have.
	Proof []byte `json:"proof"`
}

// SignedNextKey is what a node's next key signs: the key that it takes the place of.
func SignedNextKey(node string, key, next []byte) []byte {
	return framed("steady/node-next-key/v1", []byte(node), key, next)
}
