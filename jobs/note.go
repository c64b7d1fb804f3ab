package jobs

import (
	"context"
	"time"
)

// A Note is what was observed of a job and need not be durable at once. Fields
// that are zero say nothing. A note that is lost costs at most an answer given
// twice, never a wrong state.
type Note struct {
	Told       bool      // a host has the end
	Read       bool      // the end was read by handle
	NobodyWait string    // why no host waits any more, such as "host cancelled"
	Deliveries int       // so far; the largest counts
	Progress   *Progress // the latest counts
	EventID    string    // latest event id of the stream that Resumption names
	Event      string    // for the timeline, such as "first byte"

	end    *End    // an end that could not be written when it came
	events []Event // gathered from Event
}

// merge adds what a later note says.
func (n *Note) merge(later Note) {
	n.Told = n.Told || later.Told
	n.Read = n.Read || later.Read
	n.Deliveries = max(n.Deliveries, later.Deliveries)
	if later.NobodyWait != "" {
		n.NobodyWait = later.NobodyWait
	}
	if later.Progress != nil {
		n.Progress = later.Progress
	}
	if later.EventID != "" {
		n.EventID = later.EventID
	}
	if n.end == nil {
		n.end = later.end
	}
	if room := firstEvents - len(n.events); room > 0 {
		n.events = append(n.events, later.events[:min(room, len(later.events))]...)
	}
}

// Note remembers what was observed of a job. It is written with the next
// change, or within 5 s; that nobody waits any more is written at once in the
// background, because another process may be asked the same next.
func (j *Journal) Note(h Handle, n Note) {
	if n.Event != "" {
		n.events = []Event{{At: j.opts.Now().Round(0).UTC(), What: clip(n.Event, maxNote)}}
		n.Event = ""
	}
	delay := noteDelay
	if n.NobodyWait != "" {
		delay = 0
	}
	j.addNote(h, n, delay)
}

func (j *Journal) addNote(h Handle, n Note, delay time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	old, ok := j.notes[h]
	if !ok && len(j.notes) >= maxNotes && n.end == nil {
		return
	}
	old.merge(n)
	j.notes[h] = old
	j.schedule(delay)
}

// schedule sees to it that notes are written after delay at the latest; mu is
// held.
func (j *Journal) schedule(delay time.Duration) {
	if j.closed || j.timer != nil && delay >= noteDelay {
		return
	}
	j.unschedule()
	j.flushing.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		defer j.flushing.Done()
		j.mu.Lock()
		if j.timer == timer {
			j.timer = nil
		}
		j.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), noteLimit)
		defer cancel()
		_ = j.Flush(ctx) // what fails stays and is tried again
	})
	j.timer = timer
}

// unschedule stops the timer, unless it is firing already; mu is held.
func (j *Journal) unschedule() {
	if j.timer != nil && j.timer.Stop() {
		j.flushing.Done()
	}
	j.timer = nil
}

// Flush writes the notes that wait.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	waiting := len(j.notes) + len(j.ghosts)
	j.mu.Unlock()
	if waiting == 0 {
		return nil
	}
	return j.update(ctx, func(*txn) error { return nil })
}

// takeNotes hands all that waits to a change that is about to be made.
func (j *Journal) takeNotes() (map[Handle]Note, map[Handle]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unschedule()
	notes, ghosts := j.notes, j.ghosts
	if len(notes) > 0 {
		j.notes = make(map[Handle]Note)
	}
	if len(ghosts) > 0 {
		j.ghosts = make(map[Handle]bool)
	}
	if len(notes) == 0 {
		notes = nil
	}
	if len(ghosts) == 0 {
		ghosts = nil
	}
	return notes, ghosts
}

// returnNotes takes back what a failed change did not write.
func (j *Journal) returnNotes(notes map[Handle]Note, ghosts map[Handle]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for h, n := range notes {
		n.merge(j.notes[h])
		j.notes[h] = n
	}
	for h := range ghosts {
		j.ghosts[h] = true
	}
	if len(j.notes)+len(j.ghosts) > 0 {
		j.schedule(noteDelay)
	}
}

// note applies a note to its record, if there is one.
func (t *txn) note(h Handle, n Note) {
	j, ok := t.job(h)
	if !ok {
		return
	}
	if n.end != nil {
		_ = t.end(&j, *n.end) // a refusal is in the timeline
	}
	j.Deliveries = max(j.Deliveries, n.Deliveries)
	if n.NobodyWait != "" && t.j.isSelf(j.Waiter) {
		j.Waiter = ""
		j.observe(t.now, "nobody waits", n.NobodyWait)
	}
	if n.Progress != nil && !j.State.Settled() {
		p := *n.Progress
		p.Message = clip(p.Message, maxMessage)
		j.Progress, j.UpdatedAt = &p, t.now
	}
	if n.EventID != "" && !j.State.Settled() {
		t.advance(&j, n.EventID)
	}
	for _, e := range n.events {
		j.observe(e.At, e.What, e.Note)
	}
	t.mark(&j, n.Told, n.Read)
	t.save(&j)
}

// mark notes that somebody has the end of a settled job.
func (t *txn) mark(j *Job, told, read bool) {
	if !j.State.Settled() {
		return
	}
	if told && !j.Told {
		j.Told = true
		j.observe(t.now, "told", "")
	}
	if read && !j.Read {
		j.Read = true
		j.observe(t.now, "read", "")
	}
	if told || read {
		j.Waiter = ""
	}
}

// bury removes jobs whose begin was not certain and whose calls were therefore
// not sent.
func (t *txn) bury(ghosts map[Handle]bool) {
	for h := range ghosts {
		if j, ok := t.job(h); ok && j.Version == 1 && j.State == Working {
			t.remove(&j)
		}
	}
}
