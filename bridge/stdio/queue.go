package stdio

import "container/list"

// A queue holds lines in order. Notes are the lines that may be dropped.
type queue struct {
	lines    list.List                // of *line, the oldest first
	notes    list.List                // of *list.Element of lines, the oldest first
	stale    list.List                // the same: those of which a newer one came
	byKey    map[string]*list.Element // the newest note of a key
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
	q.outdate(l.key)
	if l.key != "" {
		q.byKey[l.key] = e
	}
}

// outdate makes the newest note with that key, if there is one, a stale one.
func (q *queue) outdate(key string) {
	e := q.byKey[key]
	if e == nil {
		return
	}
	e.Value.(*line).stale = q.stale.PushBack(e)
	delete(q.byKey, key)
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

// offerFirst makes the oldest line a note again, if nothing of it was written:
// a stale one if a newer one with its key came meanwhile.
func (q *queue) offerFirst() {
	e := q.lines.Front()
	l := e.Value.(*line)
	if l.answer || l.begun || l.droppable != nil {
		return
	}
	l.droppable = q.notes.PushFront(e)
	q.noteCost += l.cost
	switch {
	case l.key == "":
	case q.byKey[l.key] != nil:
		l.stale = q.stale.PushFront(e)
	default:
		q.byKey[l.key] = e
	}
}

// keep takes l off the notes.
func (q *queue) keep(l *line) {
	if l.droppable == nil {
		return
	}
	e := q.notes.Remove(l.droppable).(*list.Element)
	q.noteCost -= l.cost
	l.droppable = nil
	if l.stale != nil {
		q.stale.Remove(l.stale)
		l.stale = nil
	}
	if q.byKey[l.key] == e {
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

// dropStale removes the oldest stale note and reports whether there was one.
func (q *queue) dropStale() bool {
	n := q.stale.Front()
	if n == nil {
		return false
	}
	q.remove(n.Value.(*list.Element))
	return true
}

// free says of all lines that they are not read any more.
func (q *queue) free() {
	for e := q.lines.Front(); e != nil; e = e.Next() {
		e.Value.(*line).free()
	}
}
