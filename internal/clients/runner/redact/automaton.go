package redact

// An automaton searches for many texts at once and reads each byte once (Aho and Corasick). Most states have a
// single transition, so transitions are kept in lists; only the root, where nearly all bytes of a log lead, has
// a table.
type automaton struct {
	start  [256]int32 // transitions of the root
	states []state
}

// A state is a prefix of a text: the longest one that the input ends with.
type state struct {
	byte    byte  // its last byte
	first   int32 // the first state that extends this one; 0 for none
	sibling int32 // the next state that extends the same state; 0 for none
	fail    int32 // the longest other prefix that this one ends with
	depth   int32 // its length
	match   int32 // length of the longest text that it ends with; 0 for none
}

// root is the empty prefix.
const root int32 = 0

func newAutomaton(texts []string) *automaton {
	a := &automaton{states: make([]state, 1)}
	for _, text := range texts {
		a.add(text)
	}
	a.link()
	return a
}

func (a *automaton) add(text string) {
	at := root
	for i := range len(text) {
		next := a.child(at, text[i])
		if next == root {
			next = a.grow(at, text[i])
		}
		at = next
	}
	a.states[at].match = a.states[at].depth
}

func (a *automaton) grow(parent int32, c byte) int32 {
	child := int32(len(a.states))
	s := state{byte: c, depth: a.states[parent].depth + 1}
	if parent == root {
		a.start[c] = child
	}
	s.sibling = a.states[parent].first
	a.states[parent].first = child
	a.states = append(a.states, s)
	return child
}

// child returns the state that extends at by c, or root.
func (a *automaton) child(at int32, c byte) int32 {
	if at == root {
		return a.start[c]
	}
	for child := a.states[at].first; child != root; child = a.states[child].sibling {
		if a.states[child].byte == c {
			return child
		}
	}
	return root
}

// link sets the fail transitions, shorter states first.
func (a *automaton) link() {
	queue := []int32{root}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for at := a.states[parent].first; at != root; at = a.states[at].sibling {
			queue = append(queue, at)
			s := &a.states[at]
			if parent != root {
				s.fail = a.next(a.states[parent].fail, s.byte)
			}
			if s.match == 0 {
				s.match = a.states[s.fail].match
			}
		}
	}
}

// next returns the state after one more byte.
func (a *automaton) next(at int32, c byte) int32 {
	for at != root {
		if child := a.child(at, c); child != root {
			return child
		}
		at = a.states[at].fail
	}
	return a.start[c]
}

// skip returns how many bytes cannot start a text.
func (a *automaton) skip(bytes []byte) int {
	for i, c := range bytes {
		if a.start[c] != root {
			return i
		}
	}
	return len(bytes)
}

// matched returns the length of the longest text that ends here, or 0.
func (a *automaton) matched(at int32) int { return int(a.states[at].match) }

// depth returns how many of the last bytes may be the start of a text.
func (a *automaton) depth(at int32) int { return int(a.states[at].depth) }
