package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeColumns writes rows with their columns below each other: the first left
// of them aligned at the left, the others at the right. The last cell of a row
// that has fewer than the first row is a text that may be longer than its column.
func writeColumns(w io.Writer, rows [][]string, left int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if len(row) < len(widths) && i == len(row)-1 {
				break
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if i > 0 {
				line.WriteString("  ")
			}
			if i < left || len(row) < len(widths) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
