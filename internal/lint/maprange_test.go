package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// ranges judges each range over a map among the statements of one block.
func (w *walker) ranges(block []ast.Stmt) {
	for i, stmt := range block {
		if labeled, ok := stmt.(*ast.LabeledStmt); ok {
			stmt = labeled.Stmt
		}
		loop, ok := stmt.(*ast.RangeStmt)
		if !ok || !w.unordered(loop) {
			continue
		}
		w.settled[loop.X] = true
		if w.excused[w.purity.fset.Position(loop.Pos()).Line] {
			continue
		}
		body := loopBody{walker: w, key: loop.Key, value: loop.Value, constants: map[string]string{}, written: map[string]bool{}}
		for _, s := range loop.Body.List {
			body.stmt(s)
		}
		body.conditions(loop.Body)
		if !body.ordered && !(body.returns != "" && body.effects) && w.sortedAfter(body.collected, block[i+1:]) {
			continue
		}
		w.add(loop, "a range over a map whose order can be seen", mapAdvice)
	}
}

// unordered reports whether the loop runs over a map or over an iterator of one.
func (w *walker) unordered(loop *ast.RangeStmt) bool {
	if call, ok := loop.X.(*ast.CallExpr); ok {
		switch w.callee(call) {
		case "maps.Keys", "maps.Values", "maps.All":
			return true
		}
	}
	t := w.info.TypeOf(loop.X)
	if t == nil {
		return false
	}
	if p, ok := t.(*types.TypeParam); ok {
		return hasMap(p)
	}
	_, isMap := t.Underlying().(*types.Map)
	return isMap
}

// hasMap reports whether a type that the parameter admits is a map.
func hasMap(p *types.TypeParam) bool {
	iface := p.Constraint().Underlying().(*types.Interface)
	for i := range iface.NumEmbeddeds() {
		union, ok := iface.EmbeddedType(i).(*types.Union)
		if !ok {
			_, isMap := iface.EmbeddedType(i).Underlying().(*types.Map)
			if isMap {
				return true
			}
			continue
		}
		for j := range union.Len() {
			if _, isMap := union.Term(j).Type().Underlying().(*types.Map); isMap {
				return true
			}
		}
	}
	return false
}

// loopBody collects what the body of a loop over a map does. Allowed without a
// comment: appending to slices that are sorted afterwards, writing another map
// at the loop's own key, deleting, counting in integers, and returning one
// constant, setting something to one constant, and sorting the loop's own value,
// as long as no condition reads what the loop writes. Expressions are taken to
// have no side effects.
type loopBody struct {
	*walker
	key, value ast.Expr
	// constants is what each target is set to, written the variables changed.
	constants map[string]string
	written   map[string]bool
	collected []string
	returns   string
	effects   bool
	ordered   bool
}

func (b *loopBody) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		b.assign(s)
	case *ast.IncDecStmt:
		b.effects = true
		b.write(s.X)
		b.ordered = b.ordered || !b.integer(s.X)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		b.effects = true
		b.ordered = b.ordered || !ok || (b.callee(call) != "delete" && !b.sortsValue(call))
	case *ast.IfStmt:
		if s.Init != nil {
			b.stmt(s.Init)
		}
		b.stmt(s.Body)
		if s.Else != nil {
			b.stmt(s.Else)
		}
	case *ast.BlockStmt:
		for _, inner := range s.List {
			b.stmt(inner)
		}
	case *ast.RangeStmt:
		b.stmt(s.Body)
	case *ast.BranchStmt:
		b.ordered = b.ordered || s.Tok != token.CONTINUE
	case *ast.ReturnStmt:
		b.ret(s)
	case *ast.DeclStmt, *ast.EmptyStmt:
	default:
		b.ordered = true
	}
}

func (b *loopBody) assign(s *ast.AssignStmt) {
	if s.Tok == token.DEFINE {
		return
	}
	b.effects = true
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 {
		b.ordered = true
		return
	}
	target := types.ExprString(s.Lhs[0])
	b.write(s.Lhs[0])
	switch s.Tok {
	case token.ADD_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		b.ordered = b.ordered || !b.integer(s.Lhs[0])
	case token.ASSIGN:
		if b.ownKey(s.Lhs[0]) || b.constant(target, s.Rhs[0]) {
			return
		}
		call, ok := s.Rhs[0].(*ast.CallExpr)
		if ok && b.callee(call) == "append" && types.ExprString(call.Args[0]) == target {
			b.collected = append(b.collected, target)
			return
		}
		b.ordered = true
	default:
		b.ordered = true
	}
}

// ownKey reports whether e is an element of a map at the loop's key, so that
// no two turns write the same element.
func (b *loopBody) ownKey(e ast.Expr) bool {
	ix, ok := e.(*ast.IndexExpr)
	if !ok || b.key == nil {
		return false
	}
	t := b.info.TypeOf(ix.X)
	if t == nil {
		return false
	}
	_, isMap := t.Underlying().(*types.Map)
	return isMap && types.ExprString(ix.Index) == types.ExprString(b.key)
}

// constant reports whether the target is set to one and the same constant, or
// empty struct, wherever the loop sets it.
func (b *loopBody) constant(target string, value ast.Expr) bool {
	lit, isLit := value.(*ast.CompositeLit)
	empty := isLit && len(lit.Elts) == 0
	tv := b.info.Types[value]
	if tv.Value == nil && !tv.IsNil() && !empty {
		return false
	}
	// Elements of one map may be one element: their keys are not compared.
	target, _, _ = strings.Cut(target, "[")
	text, first := types.ExprString(value), b.constants[target]
	b.constants[target] = text
	return first == "" || first == text
}

// sortsValue reports whether the call sorts the loop's own value in place.
func (b *loopBody) sortsValue(call *ast.CallExpr) bool {
	return sorts(b.callee(call)) && b.value != nil && types.ExprString(call.Args[0]) == types.ExprString(b.value)
}

// write notes that the loop changes a variable.
func (b *loopBody) write(target ast.Expr) {
	if id, ok := target.(*ast.Ident); ok {
		b.written[id.Name] = true
	}
}

// conditions finds conditions that read what the loop writes: what they see
// depends on which turns came before.
func (b *loopBody) conditions(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		cond, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		ast.Inspect(cond.Cond, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			b.ordered = b.ordered || (ok && b.written[id.Name])
			return true
		})
		return true
	})
}

func (b *loopBody) integer(e ast.Expr) bool {
	t := b.info.TypeOf(e)
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}

// ret allows returns that all give the same constants.
func (b *loopBody) ret(s *ast.ReturnStmt) {
	var text strings.Builder
	text.WriteString("return")
	for _, e := range s.Results {
		tv := b.info.Types[e]
		if tv.Value == nil && !tv.IsNil() {
			b.ordered = true
		}
		text.WriteString(" " + types.ExprString(e))
	}
	if b.returns != "" && b.returns != text.String() {
		b.ordered = true
	}
	b.returns = text.String()
}

// sortedAfter reports whether each of the slices is sorted by a later statement
// of the same block.
func (w *walker) sortedAfter(slices []string, later []ast.Stmt) bool {
	for _, name := range slices {
		sorted := false
		for _, s := range later {
			ast.Inspect(s, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if ok && len(call.Args) > 0 && sorts(w.callee(call)) && types.ExprString(call.Args[0]) == name {
					sorted = true
				}
				return !sorted
			})
		}
		if !sorted {
			return false
		}
	}
	return true
}

func sorts(callee string) bool {
	switch callee {
	case "sort.Strings", "sort.Ints", "sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable":
		return true
	}
	return strings.HasPrefix(callee, "slices.Sort")
}
