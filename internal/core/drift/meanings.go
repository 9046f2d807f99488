package drift

import "github.com/steadyfleet/steady/internal/core/prose"

// NodeMeanings are the statuses of nodes, the ones that need somebody first.
var NodeMeanings = []prose.Meaning{
	{Word: string(NodePaused), Means: "nothing is pushed to it: it was set up anew, lost its objects, or knows more than the server's log", Next: "steady node show says which; steady node resume decides"},
	{Word: string(NodeOffline), Means: "it is not connected; what waits for it is pushed when it is", Next: "check the device and its steady node run"},
	{Word: string(NodeComparing), Means: "it connected, and its configuration is being read before anything is pushed", Next: "nothing: it takes seconds"},
	{Word: string(NodeOnline), Means: "it is connected and was compared", Next: "nothing"},
	{Word: string(NodeUnknown), Means: "objects name it, and it never registered", Next: "steady node token makes what it needs"},
	{Word: string(NodeRetired), Means: "it is gone for good, and its key is refused", Next: "a new token brings it back"},
}

// LegMeanings are the push statuses (seed 000).
var LegMeanings = []prose.Meaning{
	{Word: string(Failed), Means: "the node refused it, or could not do it", Next: "read the error, and edit the object; it is tried again when the node connects, after 30 s and then less often, and at once by steady flow push"},
	{Word: string(Pending), Means: "it is recorded, and not pushed yet", Next: "what it waits for stands beside it"},
	{Word: string(Pushing), Means: "it was sent, and the node has not answered yet", Next: "nothing: an answer that is lost is read back"},
	{Word: string(Pushed), Means: "the node acknowledged it", Next: "nothing"},
}

// DriftMeanings are the kinds of drift (seed 000).
var DriftMeanings = []prose.Meaning{
	{Word: Extraneous, Means: "the node has it, and the server does not know it", Next: "ingest it, or delete it on the node"},
	{Word: Missing, Means: "the node acknowledged it once, and does not have it any more", Next: "push it again, or delete it on the server"},
	{Word: Mismatched, Means: "the node has it with other values", Next: "push again, whole or but for some fields; ingest what the node has; or delete it"},
	{Word: "conflict", Means: "an operator changed it, and so did somebody on the node: the push waits", Next: "decide as for mismatched"},
}
