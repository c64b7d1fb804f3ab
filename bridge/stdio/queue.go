package stdio

import "container/list"

// A queue holds lines in order. Notes are the lines that may be dropped.
type queue struct {
	lines    list.List // of *line, the oldest first
	notes    list.List // of *list.Element of lines, the oldest first
	byKey    map[string]*list.Element
	cost     int
	noteCost int
	answers  int
}

func newQueue() queue { return queue{byKey: map[string]*list.Element{}} }

func (q *queue) empty() bool { return q.lines.Len() == 0 }

// begun reports whether a part of the oldest line was written.
func (q *queue) begun() bool { return !q.empty() && q.lines.Front().Value.(*line).begun }

// push appends l, which was not begun.
func (q *queue) push(l *line) {
	e := q.lines.PushBack(l)
	q.cost += l.cost
	if l.answer {
		q.answers++
		return
	}
	q.noteCost += l.cost
	l.droppable = q.notes.PushBack(e)
	if l.key != "" {
		q.byKey[l.key] = e
	}
}

// pushFront puts l before all others.
func (q *queue) pushFront(l *line) {
	q.lines.PushFront(l)
	q.cost += l.cost
	if l.answer {
		q.answers++
	}
	q.offerFirst()
}

// first returns the oldest line to be written. It cannot be dropped until
// offerFirst is called.
func (q *queue) first() *line {
	l := q.lines.Front().Value.(*line)
	q.keep(l)
	return l
}

// offerFirst makes the oldest line a note again, if nothing of it was written.
// It goes at once if a newer one with its key came meanwhile.
func (q *queue) offerFirst() {
	e := q.lines.Front()
	l := e.Value.(*line)
	if l.answer || l.begun || l.droppable != nil {
		return
	}
	if q.byKey[l.key] != nil {
		q.remove(e)
		return
	}
	l.droppable = q.notes.PushFront(e)
	q.noteCost += l.cost
	if l.key != "" {
		q.byKey[l.key] = e
	}
}

// keep takes l off the notes.
func (q *queue) keep(l *line) {
	if l.droppable == nil {
		return
	}
	q.notes.Remove(l.droppable)
	q.noteCost -= l.cost
	l.droppable = nil
	if l.key != "" {
		delete(q.byKey, l.key)
	}
}

func (q *queue) remove(e *list.Element) {
	l := q.lines.Remove(e).(*line)
	q.keep(l)
	q.cost -= l.cost
	if l.answer {
		q.answers--
	}
}

func (q *queue) removeFirst() { q.remove(q.lines.Front()) }

// dropOldest removes the oldest note and reports whether there was one.
func (q *queue) dropOldest() bool {
	n := q.notes.Front()
	if n == nil {
		return false
	}
	q.remove(n.Value.(*list.Element))
	return true
}

// drop removes the note with that key.
func (q *queue) drop(key string) {
	if e := q.byKey[key]; e != nil {
		q.remove(e)
	}
}

// replace puts l in the place of the note with its key and reports whether
// there was one.
func (q *queue) replace(l *line) bool {
	e := q.byKey[l.key]
	if e == nil || l.key == "" {
		return false
	}
	old := e.Value.(*line)
	q.cost += l.cost - old.cost
	q.noteCost += l.cost - old.cost
	l.droppable = old.droppable
	e.Value = l
	return true
}
