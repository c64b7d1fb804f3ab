package bridgetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A Fault is one kind of misbehaviour, the requests it befalls and how often.
// The zero matcher means the default of the fault, as FaultNames tells.
type Fault struct {
	Name     string
	Argument string
	Method   string // JSON-RPC method, HTTP method, or "*" for every request
	Tool     string // name of the tool of a tools/call
	Times    int    // at most so many requests; 0: every one
	After    int    // spare so many matching requests first
}

// String returns the form that ParseFault reads.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Name)
	if f.Argument != "" {
		b.WriteString(":" + f.Argument)
	}
	if at := f.Method + f.Tool; at != "" {
		b.WriteString("@" + at)
	}
	if f.Times > 0 {
		fmt.Fprintf(&b, "x%d", f.Times)
	}
	if f.After > 0 {
		fmt.Fprintf(&b, "+%d", f.After)
	}
	return b.String()
}

// ParseFault reads NAME[:ARGUMENT][@METHOD|@TOOL][xTIMES][+AFTER], for example
// "status:503,200@tools/list", "lost-reply@write_note x1" without the space, or
// "429;retry-after=1". "@*" befalls every request. What follows the @ is a
// method if it is one of MCP's or HTTP's, else the name of a tool.
func ParseFault(s string) (Fault, error) {
	form := regexp.MustCompile(`^([A-Za-z0-9.-]+)(?:[:;](.*?))?(?:@([^@]+?))?(?:x(\d+))?(?:\+(\d+))?$`)
	p := form.FindStringSubmatch(s)
	if p == nil {
		return Fault{}, fmt.Errorf("fault %q is not NAME[:ARGUMENT][@METHOD|@TOOL][xTIMES][+AFTER]", s)
	}
	f := Fault{Name: p[1], Argument: p[2]}
	if isMethod(p[3]) {
		f.Method = p[3]
	} else {
		f.Tool = p[3]
	}
	f.Times, _ = strconv.Atoi(p[4]) // absent: 0
	f.After, _ = strconv.Atoi(p[5])
	return f, f.check()
}

func isMethod(s string) bool {
	switch s {
	case "*", "initialize", "ping", "GET", "POST", "DELETE":
		return true
	}
	return strings.Contains(s, "/")
}

func (f Fault) check() error {
	d, ok := lookupFault(f.Name)
	if !ok {
		return fmt.Errorf("fault %q is unknown; see the list of faults", f.Name)
	}
	if d.parse == nil {
		if f.Argument != "" {
			return fmt.Errorf("fault %s takes no argument, not %q", f.Name, f.Argument)
		}
		return nil
	}
	if _, err := d.parse(f.Argument); err != nil {
		return fmt.Errorf("fault %s: argument %q: %w", f.Name, f.Argument, err)
	}
	return nil
}

// UnmarshalJSON reads the text form, or an object with the fields of Fault.
func (f *Fault) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		*f, err = ParseFault(s)
		return err
	}
	type plain Fault
	if err := json.Unmarshal(raw, (*plain)(f)); err != nil {
		return fmt.Errorf("parse fault: %w", err)
	}
	return f.check()
}

// An armed fault counts what it has befallen.
type armed struct {
	Fault
	def  faultDef
	arg  any // what def.parse made of Argument
	seen int
	used int
}

// A strike is an armed fault that befalls the request at hand.
type strike struct {
	name string
	arg  any
	n    int // which use this is, from 0
}

// A subject is what a matcher may look at.
type subject struct {
	http   string // HTTP method; "" at the time a connection is accepted
	method string // JSON-RPC method
	tool   string
}

type faultSet struct {
	mu    sync.Mutex
	armed []*armed
}

func (s *faultSet) set(faults []Fault) error {
	fresh := make([]*armed, 0, len(faults))
	for _, f := range faults {
		if err := f.check(); err != nil {
			return err
		}
		a := &armed{Fault: f}
		a.def, _ = lookupFault(f.Name)
		if a.def.parse != nil {
			a.arg, _ = a.def.parse(f.Argument) // checked above
		}
		fresh = append(fresh, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = fresh
	return nil
}

func (s *faultSet) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Fault, 0, len(s.armed))
	for _, a := range s.armed {
		out = append(out, a.Fault)
	}
	return out
}

// strikes returns the faults that befall the subject, among those that pick
// accepts, and takes them from their budgets.
func (s *faultSet) strikes(sub subject, pick func(*armed) bool) []strike {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []strike
	for _, a := range s.armed {
		if !pick(a) || !a.matches(sub) {
			continue
		}
		a.seen++
		if a.seen <= a.After || a.Times > 0 && a.used >= a.Times {
			continue
		}
		out = append(out, strike{a.Name, a.arg, a.used})
		a.used++
	}
	return out
}

func (a *armed) matches(sub subject) bool {
	if atAccept(a) {
		return true // nothing is known of a request yet
	}
	if a.Tool != "" {
		return sub.method == "tools/call" && sub.tool == a.Tool
	}
	m := a.Method
	if m == "" {
		m = a.def.scope
	}
	switch m {
	case "*":
		return true
	case "GET", "POST", "DELETE":
		return sub.http == m
	}
	return sub.method == m
}

// atAccept accepts the faults of a connection rather than of a request.
func atAccept(a *armed) bool {
	return a.def.point == onAccept || phaseOf(a) == phaseAccept
}

// atHead accepts the faults that strike before the body is read.
func atHead(a *armed) bool { return phaseOf(a) == phaseHead }

// atRequest accepts every other fault.
func atRequest(a *armed) bool { return !atAccept(a) && !atHead(a) }

func phaseOf(a *armed) phase {
	p, _ := a.arg.(phase) // not a phase: ""
	return p
}
