"""A small file in callgrind's format, for tests that need a profile and not valgrind.

It is what `valgrind --tool=callgrind --collect-atstart=no` wrote for a program whose `outer` calls
`inner`, which calls `fact` (recursion) and `is_even` (mutual recursion with `is_odd`), the
functions below `main` taken away.
"""

SMALL = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7902
cmd:  ./t
part: 1

desc: Timerange: Basic block 0 - 27863
desc: Trigger: Client Request: one

positions: line
events: Ir
summary: 284


ob=(5) /tmp/t
fl=(146) /tmp/t.c
fn=(542) fact
4 10
cfn=(543) fact'2
calls=2 *
* 121
* 4

fn=(543)
4 86
cfn=(543)
calls=9 *
* 464
* 35

fn=(546) is_odd
7 10
cfn=(545) is_even'2
calls=1 -1
* 100
* 3

fn=(547) is_odd'2
7 36
cfn=(545)
calls=3 -1
* 144
* 12

fn=(538) outer
cfn=(540) inner
calls=0 9
10 284

fn=(540)
9 19
cfn=(542)
calls=1 -5
* 135
* 2
cfn=(544) is_even
calls=1 -3
* 126
* 2

fn=(544)
6 10
cfn=(546)
calls=1 +1
* 113
* 3

fn=(545)
6 40
cfn=(547)
calls=4 +1
* 192
fi=(147) /tmp/inlined.h
+2 7
fe=(146)
-2 5

totals: 284
"""
