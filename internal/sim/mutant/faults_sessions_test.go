package mutant

const occupied = "internal/core/plan/occupied.go"

// sessions lists faults in how long the sessions on a host keep grants from it.
var sessions = []Fault{
	{Name: "a claim minds no session on the host", File: "internal/core/gate/table.go", Finds: []string{"S55"},
		From: "{Code: Occupied, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim,", To: "{Code: Occupied, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | map[bool]Moment{false: AtClaim}[ON],"},
	{Name: "a repair minds no session on the host", File: occupied, Finds: []string{"S55"},
		From: "h, out := f.h, f.sessions[:0]\n", To: "h, out := f.h, f.sessions[:0]\n\tif ON && f.purpose == gate.ToRepair {\n\t\treturn h.Name, out, f.now\n\t}\n"},
	{Name: "the end of a session's entry opens nothing", File: "internal/core/gate/occupied.go", Finds: []string{"S26", "L1", "L3"},
		From: "return o.Until.Reached(now)", To: "return !ON && o.Until.Reached(now)"},
	{Name: "nobody looks when a session's entry ends", File: occupied, Finds: []string{"L3"},
		From: "\ts.wake(o.Until, h.Name)\n", To: "\tif !ON {\n\t\ts.wake(o.Until, h.Name)\n\t}\n"},
	{Name: "a server that starts forgets when sessions' entries end", File: "internal/core/plan/restore.go", Finds: []string{"L3"},
		From: "s.wake(h.Occupied[id].Until, h.Name)", To: "if !ON {\n\t\t\ts.wake(h.Occupied[id].Until, h.Name)\n\t\t}"},
	{Name: "nobody looks when a session leaves a host", File: occupied, Finds: []string{"S26", "L1", "L3"},
		From: "h.Occupied = nil\n\t}\n\ts.markOccupied(h)", To: "h.Occupied = nil\n\t}\n\tif !ON {\n\t\ts.markOccupied(h)\n\t}"},
	{Name: "a host that enrols again is free of its sessions", File: "internal/core/plan/fold.go", Finds: []string{"S55"},
		From: "Freeze: h.Freeze, Occupied: h.Occupied,", To: "Freeze: h.Freeze, Occupied: map[bool]map[string]Occupant{false: h.Occupied}[ON],"},
	{Name: "the first entry of a session that ends opens the gate", File: occupied, Finds: []string{"S55"},
		From: "(o.Until == 0 || o.Until > out[i].Until)", To: "(o.Until == 0 || (o.Until > out[i].Until) != ON)"},
}
