"""Reads of a social network in the shape of LDBC SNB Interactive, beside DuckDB on native tables.

    python bench/bench_social.py FOLDER [--graph PATH] [--repeat N] [--only TEXT]... [--ladybug PYTHON]

FOLDER has the network as Parquet files named after the types of `social.pg`, which lies beside them or in `--schema`. The graph is
loaded into `--graph` unless it is there already. Every question is asked with several sets of arguments, each of them once per
phase; all engines' rows are compared for each set. Phases: first (the first question of each kind in this process), warm, old (the
same at the revision of the load, behind all commits of this run), and commit (a question after a commit of one person). Milliseconds
of the processor, and of the clock in parentheses. `--ladybug` names the Python of an environment that has `real_ladybug`; DuckDB has
native tables with indexes. Of IC14 the paths are counted,
not weighed by what is said along them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og

TYPES = {
    "id": "I64",
    "other": "I64",
    "message": "I64",
    "post": "I64",
    "ids": "[I64]",
    "name": "String",
    "before": "DateTime",
    "low": "DateTime",
    "high": "DateTime",
    "x": "String",
    "y": "String",
    "tag": "String",
    "class": "String",
    "month": "I64",
    "year": "I32",
}
ME = "$p: Person { personId: $id }"
FRIENDS = "select d from k where s = $id"
WITHIN_TWO = (
    "select distinct d from (select d from k where s = $id union all "
    "select b.d from k a join k b on b.s = a.d where a.s = $id) where d <> $id"
)


@dataclass(frozen=True)
class Question:
    name: str
    gq: str
    sql: str

    @property
    def cypher(self) -> str:
        return CYPHER.get(self.name.split()[0], "")

    @property
    def parameters(self) -> list[str]:
        return [name for name in TYPES if re.search(rf"\${name}\b", self.sql)]

    @property
    def text(self) -> str:
        declared = ", ".join(f"${name}: {TYPES[name]}" for name in self.parameters)
        return f"query q({declared}) {{ {self.gq} }}"


QUESTIONS = [
    Question(
        "IC1 people of a name within three hops",
        f"match {{ {ME} shortest path $d from $p to $f along <knows>{{1,3}} $f.firstName = $name $f livesIn $c }} "
        "return { $f.personId as id, $f.lastName as last, $d.length as far, $c.name as city } order { far, last, id } limit 20",
        "with l1 as (select distinct d from k where s = $id), l2 as (select distinct k.d from l1 join k on k.s = l1.d), "
        "l3 as (select distinct k.d from l2 join k on k.s = l2.d), "
        "r as (select d, min(h) h from (select d, 1 h from l1 union all select d, 2 from l2 union all select d, 3 from l3) "
        "where d <> $id group by d) select p.personId, p.lastName, r.h, c.name from r join Person p on p.personId = r.d "
        "join LivesIn l on l.s = r.d join City c on c.placeId = l.d where p.firstName = $name order by r.h, p.lastName, p.personId limit 20",
    ),
    Question(
        "IC2 messages of friends before a date",
        f"match {{ {ME} $p <knows> $f $m hasCreator $f $m.creationDate <= $before }} "
        "return { $f.personId as id, $f.firstName as first, $m.messageId as message, coalesce($m.content, $m.imageFile) as text, "
        "$m.creationDate as at } order { at desc, message } limit 20",
        "select p.personId, p.firstName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate from HasCreator h "
        f"join Message m on m.messageId = h.s join Person p on p.personId = h.d where h.d in ({FRIENDS}) and m.creationDate <= $before "
        "order by m.creationDate desc, m.messageId limit 20",
    ),
    Question(
        "IC3 people within two hops who wrote from two countries",
        f"match {{ {ME} $p <knows>{{1,2}} $f $m hasCreator $f $m postedIn $c $c.name in [$x, $y] $m.creationDate >= $low "
        "$m.creationDate < $high not { $f livesIn $t $t cityOf $h $h.name in [$x, $y] } } "
        "return { $f.personId as id, sum(case when $c.name = $x then 1 else 0 end) as xs, "
        "sum(case when $c.name = $y then 1 else 0 end) as ys } having { xs > 0 and ys > 0 } order { xs desc, id } limit 20",
        "select h.d, count(*) filter (c.name = $x) xs, count(*) filter (c.name = $y) ys from HasCreator h join Message m on m.messageId = h.s "
        f"join PostedIn o on o.s = m.messageId join Country c on c.placeId = o.d where h.d in ({WITHIN_TWO}) and c.name in ($x, $y) "
        "and m.creationDate >= $low and m.creationDate < $high and not exists (select 1 from LivesIn l join CityOf y on y.s = l.d "
        "join Country n on n.placeId = y.d where l.s = h.d and n.name in ($x, $y)) group by h.d having xs > 0 and ys > 0 "
        "order by xs desc, h.d limit 20",
    ),
    Question(
        "IC4 new topics of friends' posts",
        f'match {{ {ME} $p <knows> $f $m hasCreator $f $m.kind = "post" $m.creationDate >= $low $m.creationDate < $high $m messageTag $t '
        'not { $p <knows> $g $o hasCreator $g $o.kind = "post" $o.creationDate < $low $o messageTag $t } } '
        "return { $t.name as tag, count($m) as posts } order { posts desc, tag } limit 10",
        f"with f as ({FRIENDS}), m as (select m.messageId, m.creationDate from HasCreator h join Message m on m.messageId = h.s "
        "where h.d in (from f) and m.kind = 'post' and m.creationDate < $high) select t.name, count(*) n from m "
        "join MessageTag g on g.s = m.messageId join Tag t on t.tagId = g.d where m.creationDate >= $low and g.d not in "
        "(select g.d from m join MessageTag g on g.s = m.messageId where m.creationDate < $low) group by t.name order by n desc, t.name limit 10",
    ),
    Question(
        "IC5 forums that people within two hops joined",
        f"match {{ {ME} $p <knows>{{1,2}} $f $forum $j:hasMember $f $j.joinDate > $before "
        "optional { $forum containerOf $m $m hasCreator $f } } "
        "return { $forum.title as title, $forum.forumId as forum, count($m) as posts } order { posts desc, forum } limit 20",
        f"with f as ({WITHIN_TWO}), j as (select s, d from HasMember where d in (from f) and joinDate > $before) "
        "select o.title, o.forumId, count(x.m) n from j join Forum o on o.forumId = j.s left join (select c.s f, h.d p, c.d m from ContainerOf c "
        "join HasCreator h on h.s = c.d where h.d in (from f)) x on x.f = j.s and x.p = j.d group by all order by n desc, o.forumId limit 20",
    ),
    Question(
        "IC6 tags that appear beside a tag",
        f'match {{ {ME} $p <knows>{{1,2}} $f $m hasCreator $f $m.kind = "post" $m messageTag $t $t.name = $tag $m messageTag $o $o != $t }} '
        "return { $o.name as other, count($m) as posts } order { posts desc, other } limit 10",
        "select o.name, count(*) n from HasCreator h join Message m on m.messageId = h.s join MessageTag g on g.s = m.messageId "
        f"join Tag t on t.tagId = g.d join MessageTag x on x.s = m.messageId join Tag o on o.tagId = x.d where h.d in ({WITHIN_TWO}) "
        "and m.kind = 'post' and t.name = $tag and o.tagId <> t.tagId group by o.name order by n desc, o.name limit 10",
    ),
    Question(
        "IC7 who liked the messages of a person last",
        f"match {{ {ME} $m hasCreator $p $l $k:likes $m }} return {{ $l.personId as id, $l.firstName as first, "
        "max($k.creationDate) as at, count($m) as likes } order { at desc, id } limit 20",
        "select p.personId, p.firstName, max(l.creationDate) t, count(*) from HasCreator h join Likes l on l.d = h.s "
        "join Person p on p.personId = l.s where h.d = $id group by all order by t desc, p.personId limit 20",
    ),
    Question(
        "IC8 newest replies to a person",
        f"match {{ {ME} $m hasCreator $p $r replyOf $m $r hasCreator $a }} return {{ $a.personId as id, $a.firstName as first, "
        "$r.creationDate as at, $r.messageId as reply, $r.content as text } order { at desc, reply } limit 20",
        "select a.personId, a.firstName, r.creationDate, r.messageId, r.content from HasCreator h join ReplyOf y on y.d = h.s "
        "join Message r on r.messageId = y.s join HasCreator z on z.s = r.messageId join Person a on a.personId = z.d where h.d = $id "
        "order by r.creationDate desc, r.messageId limit 20",
    ),
    Question(
        "IC9 newest messages of everybody within two hops",
        f"match {{ {ME} $p <knows>{{1,2}} $f $m hasCreator $f $m.creationDate < $before }} "
        "return { $f.personId as id, $f.firstName as first, $m.messageId as message, coalesce($m.content, $m.imageFile) as text, "
        "$m.creationDate as at } order { at desc, message } limit 20",
        "select p.personId, p.firstName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate from HasCreator h "
        f"join Message m on m.messageId = h.s join Person p on p.personId = h.d where h.d in ({WITHIN_TWO}) and m.creationDate < $before "
        "order by m.creationDate desc, m.messageId limit 20",
    ),
    Question(
        "IC10 people to meet",
        f"match {{ {ME} $p <knows>{{2,2}} $f month($f.birthday) = $month $f livesIn $c "
        'optional { $m hasCreator $f $m.kind = "post" exists { $m messageTag $t $p hasInterest $t } } } '
        "return { $f.personId as id, $f.firstName as first, $c.name as city, count($m) as common } order { common desc, id } limit 10",
        f"with one as ({FRIENDS}), two as (select distinct k.d from k where k.s in (from one) and k.d <> $id and k.d not in (from one)), "
        "m as (select h.d f, m.messageId from HasCreator h join Message m on m.messageId = h.s where h.d in (from two) and m.kind = 'post' "
        "and m.messageId in (select g.s from MessageTag g where g.d in (select d from HasInterest where s = $id))) "
        "select f.personId, f.firstName, c.name, count(m.messageId) n from two join Person f on f.personId = two.d join LivesIn l on l.s = two.d "
        "join City c on c.placeId = l.d left join m on m.f = two.d where month(f.birthday) = $month group by all order by n desc, f.personId limit 10",
    ),
    Question(
        "IC11 people within two hops who work in a country",
        f"match {{ {ME} $p <knows>{{1,2}} $f $f $w:workAt $o $w.workFrom < $year $o companyIn $c $c.name = $x }} "
        "return { $f.personId as id, $f.firstName as first, $o.name as company, $w.workFrom as since } "
        "order { since, id, company desc } limit 10",
        f"select f.personId, f.firstName, o.name, w.workFrom from ({WITHIN_TWO}) t join WorkAt w on w.s = t.d join Company o on "
        "o.organisationId = w.d join CompanyIn i on i.s = w.d join Country c on c.placeId = i.d join Person f on f.personId = t.d "
        "where w.workFrom < $year and c.name = $x order by w.workFrom, f.personId, o.name desc limit 10",
    ),
    Question(
        "IC12 friends who answered posts of a class",
        f'match {{ {ME} $p <knows> $f $c hasCreator $f $c replyOf $post $post.kind = "post" $post messageTag $t $t hasType $k '
        "($k.name = $class or exists { $k subclassOf{1,} $s $s.name = $class }) } "
        "return { $f.personId as id, $f.firstName as first, count(distinct $c) as replies } order { replies desc, id } limit 20",
        "with recursive cls(c) as (select tagClassId from TagClass where name = $class union select s from SubclassOf join cls on d = c) "
        "select f.personId, f.firstName, count(distinct h.s) n from HasCreator h join Person f on f.personId = h.d join ReplyOf r on r.s = h.s "
        "join Message o on o.messageId = r.d join MessageTag g on g.s = o.messageId join HasType y on y.s = g.d "
        f"where h.d in ({FRIENDS}) and o.kind = 'post' and y.d in (from cls) group by all order by n desc, f.personId limit 20",
    ),
    Question(
        "IC13 length of a shortest path",
        f"match {{ {ME} $q: Person {{ personId: $other }} optional {{ shortest path $d from $p to $q along <knows>{{1,32}} }} }} "
        "return { coalesce($d.length, -1) as hops }",
        "with recursive b(n, h) as (select $id, 0 union select k.d, h + 1 from b join k on k.s = b.n where h < 4 and not exists "
        "(select 1 from b e where e.n = $other)) select coalesce(min(h), -1) from b where n = $other",
    ),
    Question(
        "IC14 all shortest paths",
        f"match {{ {ME} $q: Person {{ personId: $other }} shortest paths $w from $p to $q along <knows>{{1,32}} }} "
        "return { $w.length as hops, count($p) as paths }",
        "with recursive b(n, h) as (select $id, 0 union select k.d, h + 1 from b join k on k.s = b.n where h < 4 and not exists "
        "(select 1 from b e where e.n = $other)), near as (select n, min(h) h from b group by n), p(n, h, hops) as "
        "(select n, h, h from near where n = $other union all select k.s, p.h - 1, p.hops from p join k on k.d = p.n "
        "join near on near.n = k.s and near.h = p.h - 1) select hops, count(*) from p where h = 0 group by hops",
    ),
    Question(
        "IS1 profile of a person",
        f"match {{ {ME} $p livesIn $c }} return {{ $p.firstName as first, $p.lastName as last, $p.birthday as born, "
        "$p.locationIP as ip, $p.browserUsed as browser, $c.placeId as city, $p.gender as gender }",
        "select p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, l.d, p.gender from Person p "
        "join LivesIn l on l.s = p.personId where p.personId = $id",
    ),
    Question(
        "IS2 last messages of a person and their posts",
        f'match {{ {ME} $m hasCreator $p optional {{ $m replyOf{{1,}} $o $o.kind = "post" $o hasCreator $a }} }} '
        "return { $m.messageId as message, $m.creationDate as at, $o.messageId as post, $a.firstName as first } order { at desc, message } limit 10",
        "with recursive mine as (select h.s m, m.creationDate t from HasCreator h join Message m on m.messageId = h.s where h.d = $id "
        "order by t desc, m limit 10), up(m, o) as (select m, d from mine join ReplyOf r on r.s = m union select up.m, r.d from up "
        "join ReplyOf r on r.s = up.o) select mine.m, mine.t, x.o, x.f from mine left join (select up.m, up.o, a.firstName f from up "
        "join Message p on p.messageId = up.o and p.kind = 'post' join HasCreator z on z.s = up.o join Person a on a.personId = z.d) x "
        "on x.m = mine.m order by mine.t desc, mine.m",
    ),
    Question(
        "IS3 friends of a person",
        f"match {{ {ME} $p $k:<knows> $f }} return {{ $f.personId as id, $f.firstName as first, $k.creationDate as since }} "
        "order { since desc, id }",
        "select f.personId, f.firstName, k.t from k join Person f on f.personId = k.d where k.s = $id order by k.t desc, f.personId",
    ),
    Question(
        "IS4 content of a message",
        "match { $m: Message { messageId: $message } } return { $m.creationDate as at, coalesce($m.content, $m.imageFile) as text }",
        "select creationDate, coalesce(content, imageFile) from Message where messageId = $message",
    ),
    Question(
        "IS5 creator of a message",
        "match { $m: Message { messageId: $message } $m hasCreator $a } return { $a.personId as id, $a.firstName as first }",
        "select a.personId, a.firstName from HasCreator h join Person a on a.personId = h.d where h.s = $message",
    ),
    Question(
        "IS6 forum of a post",
        "match { $m: Message { messageId: $post } $f containerOf $m $f hasModerator $a } "
        "return { $f.forumId as forum, $f.title as title, $a.personId as id, $a.firstName as first }",
        "select f.forumId, f.title, a.personId, a.firstName from ContainerOf c join Forum f on f.forumId = c.s join HasModerator o on o.s = c.s "
        "join Person a on a.personId = o.d where c.d = $post",
    ),
    Question(
        "IS7 replies to a message",
        "match { $m: Message { messageId: $post } $m hasCreator $p $r replyOf $m $r hasCreator $a optional { $a $k:<knows> $p } } "
        "return { $r.messageId as reply, $r.content as text, $a.personId as id, count($k) as knows } order { reply }",
        "select r.messageId, r.content, z.d, count(k.s) from HasCreator h join ReplyOf y on y.d = h.s join Message r on r.messageId = y.s "
        "join HasCreator z on z.s = r.messageId left join k on k.s = z.d and k.d = h.d where h.s = $post group by all order by r.messageId",
    ),
    Question(
        "B1 messages by country, month and kind",
        "match { $m postedIn $c } return { $c.name as country, year($m.creationDate) as year, month($m.creationDate) as month, "
        "$m.kind as kind, count($m) as n, avg($m.length) as mean } order { n desc, country, year, month, kind } limit 20",
        "select c.name, year(m.creationDate) y, month(m.creationDate) mo, m.kind, count(*) n, avg(m.length) from Message m "
        "join PostedIn o on o.s = m.messageId join Country c on c.placeId = o.d group by all order by n desc, c.name, y, mo, m.kind limit 20",
    ),
    Question(
        "B2 messages by id with a condition",
        "match { $m: Message $m.messageId in $ids $m.length > 100 } return { $m.messageId as id, $m.length as length } order { id }",
        "select messageId, length from Message where messageId in (select unnest($ids)) and length > 100 order by messageId",
    ),
]  # fmt: skip


CYPHER = {
    "IC1": "match (p:Person {personId: $id})-[e:Knows* shortest 1..3]-(f:Person)-[:LivesIn]->(c:City) where f.firstName = $name "
    "and f.personId <> $id return f.personId, f.lastName as last, length(e) as far, c.name order by far, last, f.personId limit 20",
    "IC2": "match (p:Person {personId: $id})-[:Knows]-(f:Person)<-[:HasCreator]-(m:Message) where m.creationDate <= $before "
    "return f.personId, f.firstName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate order by m.creationDate desc, "
    "m.messageId limit 20",
    "IC3": "match (p:Person {personId: $id})-[:Knows* shortest 1..2]-(f:Person)<-[:HasCreator]-(m:Message)-[:PostedIn]->(c:Country) "
    "where f.personId <> $id and c.name in [$x, $y] and m.creationDate >= $low and m.creationDate < $high and not exists "
    "{ match (f)-[:LivesIn]->(:City)-[:CityOf]->(n:Country) where n.name in [$x, $y] } with f.personId as id, "
    "sum(case when c.name = $x then 1 else 0 end) as xs, sum(case when c.name = $y then 1 else 0 end) as ys where xs > 0 and ys > 0 "
    "return id, xs, ys order by xs desc, id limit 20",
    "IC5": "match (p:Person {personId: $id})-[:Knows* shortest 1..2]-(f:Person)<-[j:HasMember]-(o:Forum) where f.personId <> $id and "
    "j.joinDate > $before optional match (o)-[:ContainerOf]->(m:Message)-[:HasCreator]->(f) return o.title, o.forumId, "
    "count(m.messageId) as posts order by posts desc, o.forumId limit 20",
    "IC6": "match (p:Person {personId: $id})-[:Knows* shortest 1..2]-(f:Person)<-[:HasCreator]-(m:Message)-[:MessageTag]->(t:Tag) where "
    "f.personId <> $id and m.kind = 'post' and t.name = $tag match (m)-[:MessageTag]->(o:Tag) where o.tagId <> t.tagId "
    "return o.name as other, count(*) as posts order by posts desc, other limit 10",
    "IC7": "match (p:Person {personId: $id})<-[:HasCreator]-(m:Message)<-[k:Likes]-(l:Person) return l.personId as i, l.firstName, "
    "max(k.creationDate) as at, count(*) order by at desc, i limit 20",
    "IC8": "match (p:Person {personId: $id})<-[:HasCreator]-(m:Message)<-[:ReplyOf]-(r:Message)-[:HasCreator]->(a:Person) return "
    "a.personId, a.firstName, r.creationDate, r.messageId, r.content order by r.creationDate desc, r.messageId limit 20",
    "IC9": "match (p:Person {personId: $id})-[:Knows* shortest 1..2]-(f:Person)<-[:HasCreator]-(m:Message) where f.personId <> $id and "
    "m.creationDate < $before return f.personId, f.firstName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate "
    "order by m.creationDate desc, m.messageId limit 20",
    "IC11": "match (p:Person {personId: $id})-[:Knows* shortest 1..2]-(f:Person)-[w:WorkAt]->(o:Company)-[:CompanyIn]->(c:Country) where "
    "f.personId <> $id and w.workFrom < $year and c.name = $x return f.personId, f.firstName, o.name, w.workFrom "
    "order by w.workFrom, f.personId, o.name desc limit 10",
    "IC13": "match (p:Person {personId: $id})-[e:Knows* shortest 1..30]-(q:Person {personId: $other}) return length(e)",
    "IC14": "match (p:Person {personId: $id})-[e:Knows* all shortest 1..30]-(q:Person {personId: $other}) return length(e), count(*)",
    "IS1": "match (p:Person {personId: $id})-[:LivesIn]->(c:City) return p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, "
    "c.placeId, p.gender",
    "IS3": "match (p:Person {personId: $id})-[k:Knows]-(f:Person) return f.personId, f.firstName, k.creationDate "
    "order by k.creationDate desc, f.personId",
    "IS4": "match (m:Message {messageId: $message}) return m.creationDate, coalesce(m.content, m.imageFile)",
    "IS5": "match (m:Message {messageId: $message})-[:HasCreator]->(a:Person) return a.personId, a.firstName",
    "IS6": "match (m:Message {messageId: $post})<-[:ContainerOf]-(f:Forum)-[:HasModerator]->(a:Person) return f.forumId, f.title, "
    "a.personId, a.firstName",
    "IS7": "match (m:Message {messageId: $post})-[:HasCreator]->(p:Person), (m)<-[:ReplyOf]-(r:Message)-[:HasCreator]->(a:Person) "
    "optional match (a)-[k:Knows]-(p) return r.messageId as i, r.content, a.personId, count(k.creationDate) order by i",
    "B1": "match (m:Message)-[:PostedIn]->(c:Country) return c.name as n, date_part('year', m.creationDate) as y, "
    "date_part('month', m.creationDate) as o, m.kind as k, count(*) as c, avg(m.length) order by c desc, n, y, o, k limit 20",
}
"""The same questions for Ladybug, by the first word of their names; the others are left out: its texts for them do not end."""
LADYBUG_TYPES = {
    "int64": "INT64",
    "int32": "INT32",
    "string": "STRING",
    "date32[day]": "DATE",
    "timestamp[ms]": "TIMESTAMP",
}


def ladybug_tables(folder: Path, schema: str) -> dict[str, list[str]]:
    """Statements that create and fill the tables of Ladybug, node tables first."""
    ends_of = {name: (near, far) for name, near, far in re.findall(r"edge (\w+): (\w+) -> (\w+)", schema)}
    nodes, edges = {}, {}
    for path in sorted(folder.glob("*.parquet")):
        columns = {field.name: LADYBUG_TYPES[str(field.type)] for field in pq.read_schema(path)}
        listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items() if name not in ("from", "to"))
        if "from" in columns:
            ends = ends_of[path.stem]
            cells = ["cast(`from`, 'INT64')", "cast(`to`, 'INT64')", *(n for n in columns if n not in ("from", "to"))]
            edges[path.stem] = [
                f"CREATE REL TABLE {path.stem}(FROM {ends[0]} TO {ends[1]}{', ' if listed else ''}{listed})",
                f'COPY {path.stem} FROM (LOAD FROM "{path}" RETURN {", ".join(cells)})',
            ]
        else:
            nodes[path.stem] = [
                f"CREATE NODE TABLE {path.stem}({listed}, PRIMARY KEY({next(iter(columns))}))",
                f'COPY {path.stem} FROM "{path}"',
            ]
    return nodes | edges


def ladybug(
    python: str, folder: Path, schema: str, questions: list[Question], sets: list[dict[str, Any]]
) -> dict[str, list[Any]]:
    """[rows, ms of the processor, ms of the clock] of Ladybug for each question and set of arguments."""

    def plain(value: Any) -> Any:
        return {"at": value.isoformat()} if isinstance(value, dt.datetime) else value

    queries = [
        [q.name, q.cypher, [{name: plain(drawn[name]) for name in q.parameters} for drawn in sets]]
        for q in questions
        if q.cypher
    ]
    request = {"tables": ladybug_tables(folder, schema), "queries": queries}
    script = Path(__file__).with_name("peers.py")
    done = subprocess.run([python, str(script)], input=json.dumps(request), capture_output=True, text=True, check=False)
    print(done.stderr, end="", file=sys.stderr)
    return {} if done.returncode else json.loads(done.stdout.splitlines()[-1])


def add_companies(folder: Path, persons: int) -> None:
    """Companies, where they are and who works there, unless the network has them."""
    if (folder / "WorkAt.parquet").exists():
        return
    random, companies = np.random.default_rng(17), np.arange(600)
    workers = np.repeat(np.arange(persons), random.poisson(2, persons))
    pairs = np.unique(workers * 600 + random.integers(0, 600, len(workers)))

    def put(name: str, /, **columns: Any) -> None:
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")

    def ids(numbers: Any) -> pa.Array:
        return pa.array(numbers.astype(str))

    put("Company", organisationId=companies, name=[f"Company{n}" for n in companies], url=["u"] * 600)
    put("CompanyIn", **{"from": ids(companies), "to": ids(100 + companies % 60)})
    since = random.integers(1995, 2013, len(pairs)).astype(np.int32)
    put("WorkAt", **{"from": ids(pairs // 600), "to": ids(pairs % 600)}, workFrom=since)


def arguments_for(persons: int, messages: int, sets: int) -> list[dict[str, Any]]:
    """Deterministic arguments, every set different."""
    random, start = np.random.default_rng(3), dt.datetime(2010, 1, 1)
    drawn = []
    for _ in range(sets):
        low = start + dt.timedelta(days=int(random.integers(200, 800)))
        x, y = (f"Country{number}" for number in random.choice(20, 2, replace=False))
        drawn.append(
            {
                "id": int(random.integers(0, persons)),
                "other": int(random.integers(0, persons)),
                "message": int(random.integers(0, messages)),
                "post": int(random.integers(0, messages * 35 // 100)),
                "ids": [int(number) for number in random.integers(0, messages, 50)],
                "name": f"First{int(400 * random.random() ** 2)}",
                "before": low,
                "low": low,
                "high": low + dt.timedelta(days=60),
                "x": x,
                "y": y,
                "tag": f"Tag{int(500 * random.random() ** 2)}",
                "class": f"Class{int(random.integers(0, 12))}",
                "month": int(random.integers(1, 13)),
                "year": int(random.integers(2000, 2012)),
            }
        )
    return drawn


def plain_duckdb(folder: Path) -> Callable[[Question, dict[str, Any]], list[tuple[Any, ...]]]:
    """Native tables with integer keys, each edge table indexed at both ends, and `k` with every friendship in both directions."""
    engine = duckdb.connect(config={"threads": 2})
    for path in sorted(folder.glob("*.parquet")):
        columns = {name for name, *_ in engine.execute(f"describe from '{path}'").fetchall()}
        ends = '"from"::bigint s, "to"::bigint d, * exclude ("from", "to")' if "from" in columns else "*"
        engine.execute(f"create table {path.stem} as select {ends} from '{path}'")
        if "from" in columns:
            engine.execute(f"create index {path.stem}_s on {path.stem}(s)")
            engine.execute(f"create index {path.stem}_d on {path.stem}(d)")
    engine.execute(
        "create table k as select s, d, creationDate t from Knows union all select d, s, creationDate from Knows"
    )
    engine.execute("create index k_s on k(s)")
    engine.execute("create unique index person_id on Person(personId)")
    engine.execute("create unique index message_id on Message(messageId)")
    return lambda question, arguments: engine.execute(
        question.sql, {name: arguments[name] for name in question.parameters}
    ).fetchall()


def ours(graph: og.Graph, revision: str = "main") -> Callable[[Question, dict[str, Any]], list[tuple[Any, ...]]]:
    return lambda question, arguments: [
        tuple(row.values())
        for row in graph.query(
            question.text, {name: arguments[name] for name in question.parameters}, revision=revision
        ).rows
    ]


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return round(value, 6) if isinstance(value, float) else value

    return [tuple(map(plain, row)) for row in rows]


def is_same(rows: list[tuple[Any, ...]], theirs: list[list[Any]]) -> bool:
    """Whether rows are those that another process gave as JSON. Where it has no path it gives no row."""

    def text(row: Any) -> list[str]:
        return [f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row]

    return [text(row) for row in rows if row != (-1,)] == [text(row) for row in comparable(list(map(tuple, theirs)))]


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of the processor and of the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    run()
    return (time.process_time() - cpu) * 1e3, (time.perf_counter() - clock) * 1e3


def shown(times: list[tuple[float, float]]) -> str:
    return f"{statistics.median(cpu for cpu, _ in times):8.2f} ({statistics.median(clock for _, clock in times):8.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--commits", type=int, default=3)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--ladybug", default=None, metavar="PYTHON")
    options = parser.parse_args()
    place = options.graph or options.folder / "graph"
    schema = (options.schema or options.folder / "social.pg").read_text()
    persons, messages = (
        duckdb.execute(f"select count(*) from '{options.folder / name}.parquet'").fetchall()[0][0]
        for name in ("Person", "Message")
    )
    add_companies(options.folder, persons)
    if not (place / "graph.json").exists():
        files = [str(path) for path in sorted(options.folder.glob("*.parquet"))]
        og.init(str(place), schema=schema).load(files, mode="append")
    graph = og.open(str(place))
    peer, own = plain_duckdb(options.folder), ours(graph)
    then = ours(graph, graph.snapshot().commit.id)
    sets = arguments_for(persons, messages, options.repeat)
    questions = [q for q in QUESTIONS if not options.only or any(part in q.name for part in options.only)]
    other = ladybug(options.ladybug, options.folder, schema, questions, sets) if options.ladybug else {}
    print(f"{persons:,} people, {messages:,} messages; ms of the processor (of the clock)")
    names = ["first", "warm", "old", "after a commit", "DuckDB", "Ladybug"]
    print(f"{'':52}{''.join(f'{name:>20}' for name in names)}  to the better")
    ratios, added = [], persons
    for question in questions:
        first = [measured(partial(own, question, sets[0]))]
        theirs = other.get(question.name, [])
        for place_, arguments in enumerate(sets):
            rows, expected = comparable(own(question, arguments)), comparable(peer(question, arguments))
            if rows != expected or rows != comparable(then(question, arguments)):
                raise SystemExit(f"{question.name} {arguments}:\n{rows[:8]}\n{expected[:8]}")
            if theirs and not is_same(rows, theirs[place_][0]):
                print(f"  Ladybug {question.name}: {theirs[place_][0][:3]} != {rows[:3]}", file=sys.stderr)
        warm = [measured(partial(own, question, arguments)) for arguments in sets]
        native = [measured(partial(peer, question, arguments)) for arguments in sets]
        after = []
        for arguments in sets[: options.commits]:
            added += 1
            with graph.transaction() as tx:
                tx.insert(
                    "Person",
                    personId=10_000_000 + added + int(time.time()) * 1000,
                    firstName="New",
                    lastName="New",
                    gender="male",
                    birthday=dt.date(2000, 1, 1),
                    creationDate=dt.datetime(2013, 1, 1),
                    locationIP="10.0.0.1",
                    browserUsed="Opera",
                )
            after.append(measured(partial(own, question, arguments)))
        old = [measured(partial(then, question, arguments)) for arguments in sets]
        times = [first, warm, old, after, native, [(cpu, clock) for _, cpu, clock in theirs]]
        better = min(statistics.median(cpu for cpu, _ in taken) for taken in times[4:] if taken)
        ratios.append(statistics.median(cpu for cpu, _ in warm) / better)
        cells = "".join(shown(taken) if taken else f"{'-':>20}" for taken in times)
        print(f"{question.name:52}{cells}{ratios[-1]:8.2f}", flush=True)
    print(f"median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
