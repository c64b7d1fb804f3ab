package jsonrpc

import (
	"bytes"
	"math/big"
	"strconv"
)

// maxNumber bounds, in bytes, the numbers that are read as ids and codes.
const maxNumber = 1024

// A decimal is the exact value of a JSON number: digits × 10^exponent, where
// digits has no zero at either end; the zero value is 0. Nothing is expanded,
// so that 1e999999999 costs no more than its ten characters.
type decimal struct {
	negative bool
	digits   []byte
	exponent big.Int
}

// parseDecimal reads a valid JSON number.
func parseDecimal(number []byte) decimal {
	var d decimal
	number, d.negative = bytes.CutPrefix(number, []byte("-"))
	mantissa := number
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		d.exponent.SetString(string(bytes.TrimPrefix(number[i+1:], []byte("+"))), 10)
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	shift := -len(fraction)
	trimmed := bytes.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	d.digits = bytes.TrimLeft(trimmed, "0")
	if len(d.digits) == 0 {
		return decimal{}
	}
	d.exponent.Add(&d.exponent, big.NewInt(int64(shift)))
	return d
}

// whole reports whether the number has no fraction.
func (d *decimal) whole() bool { return d.exponent.Sign() >= 0 }

// String is the same for equal numbers and differs for different ones.
func (d *decimal) String() string {
	if len(d.digits) == 0 {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + string(d.digits) + "e" + d.exponent.String()
}

// Integer returns the value of a JSON number without a fraction that fits, in
// whatever way it is spelt (1, 1.0, 1e0).
func Integer(value []byte) (n int64, ok bool) {
	if kindOf(value) != '0' || len(value) > maxNumber {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, true
	}
	d := parseDecimal(value)
	const digitsOfInt64 = 19
	if !d.whole() || d.exponent.Cmp(big.NewInt(digitsOfInt64)) > 0 {
		return 0, false
	}
	zeros := bytes.Repeat([]byte("0"), int(d.exponent.Int64()))
	text := string(append(bytes.Clone(d.digits), zeros...))
	if d.negative {
		text = "-" + text
	}
	if len(d.digits) == 0 {
		text = "0"
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
