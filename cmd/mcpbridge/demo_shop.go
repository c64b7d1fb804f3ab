package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Annotations of the shop's tools, as MCP has them.
const (
	shopReads  = `{"readOnlyHint":true}`
	shopWrites = `{"readOnlyHint":false,"destructiveHint":false}`
)

// What the shop answers.
const (
	adaLovelace   = "Ada Lovelace, customer 17"
	ordersCounted = "612 orders"
	reportBuilt   = "report 2026: 2,448 orders"
)

const (
	monthTime = 150 * time.Millisecond // that count_orders takes over one month
	pageTime  = 50 * time.Millisecond  // that build_report takes over one page
)

// A shop is the remote server of the demo, with tools that a business might
// have. What they do is written into the upstream's ledger.
type shop struct {
	tools []bridgetest.Tool

	booksEnd atomic.Bool // build_report has read enough

	mu      sync.Mutex
	exports map[string]bool // by requestId
}

func newShop() *shop {
	s := &shop{exports: map[string]bool{}}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	s.tools = []bridgetest.Tool{
		{Name: "find_customer", Description: "Finds a customer by name.", Annotations: raw(shopReads), Input: raw(`{"name":{"type":"string"}}`), Run: findCustomer},
		{Name: "count_orders", Description: "Counts the orders of a quarter.", Annotations: raw(shopReads), Input: raw(`{"quarter":{"type":"integer"}}`), Run: countOrders},
		{Name: "send_invoice", Description: "Sends an invoice.", Annotations: raw(shopWrites), Input: raw(`{"customer":{"type":"integer"},"euros":{"type":"integer"}}`), Run: sendInvoice},
		{Name: "build_report", Description: "Builds the report of a year.", Annotations: raw(shopWrites), Input: raw(`{"year":{"type":"integer"}}`), Run: s.buildReport},
		{Name: "start_export", Description: "Starts an export.", Annotations: raw(shopWrites), Input: raw(`{"requestId":{"type":"string"}}`), Run: s.startExport},
		{Name: "get_export", Description: "Tells how an export goes.", Annotations: raw(shopReads), Input: raw(`{"requestId":{"type":"string"}}`), Run: s.getExport},
	}
	return s
}

func findCustomer(*bridgetest.Call) (any, error) {
	return bridgetest.Text(adaLovelace), nil
}

func months() []string { return []string{"January", "February", "March"} }

func countOrders(c *bridgetest.Call) (any, error) {
	for i, month := range months() {
		if err := c.Sleep(monthTime); err != nil {
			return nil, err
		}
		c.Progress(i+1, len(months()), month)
	}
	return bridgetest.Text(ordersCounted), nil
}

func sendInvoice(c *bridgetest.Call) (any, error) {
	var a struct{ Customer int }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.Effect(fmt.Sprintf("customer %d", a.Customer))
	return bridgetest.Text("sent"), nil
}

// buildReport reads until the books end, also when nobody waits for it any more,
// as most servers do.
func (s *shop) buildReport(c *bridgetest.Call) (any, error) {
	var a struct{ Year int }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.Progress(1, 2, "reading the books")
	for !s.booksEnd.Load() {
		if err := c.Work(pageTime); err != nil {
			return nil, err
		}
	}
	c.Effect(fmt.Sprintf("report %d", a.Year))
	return bridgetest.Text(reportBuilt), nil
}

type exportArguments struct {
	RequestID string `json:"requestId"`
}

func (s *shop) startExport(c *bridgetest.Call) (any, error) {
	var a exportArguments
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.exports[a.RequestID] = true
	s.mu.Unlock()
	c.Effect(a.RequestID)
	return s.export(a.RequestID), nil
}

func (s *shop) getExport(c *bridgetest.Call) (any, error) {
	var a exportArguments
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	return s.export(a.RequestID), nil
}

func (s *shop) export(id string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.exports[id] {
		return bridgetest.Structured(map[string]any{"status": "not_found"})
	}
	return bridgetest.Structured(map[string]any{"status": "done", "rows": 2448})
}
