The questions of SNB Interactive, LSQB and FinBench in SQL, written from their public definitions. An edge table has the columns
`s` and `d`; k(s, d, since): friendships in both directions; near(p): friends and their friends; written: messages with their authors.

-- ic1
with recursive w(n, h) as (select $personId, 0 union select k.d, h + 1 from w join k on k.s = w.n where h < 3),
  far as (select n, min(h) as h from w group by n having min(h) > 0)
select p.personId, p.lastName, h, p.birthday, p.creationDate, p.gender, p.browserUsed, p.locationIP, p.email, p.speaks, c.name,
  (select coalesce(list({'name': u.name, 'year': s.classYear, 'city': t.name} order by u.name, s.classYear), []) from StudyAt s
    join University u on u.organisationId = s.d join UniversityIn i on i.s = s.d join City t on t.placeId = i.d where s.s = p.personId),
  (select coalesce(list({'name': o.name, 'since': a.workFrom, 'country': t.name} order by o.name, a.workFrom), []) from WorkAt a
    join Company o on o.organisationId = a.d join CompanyIn i on i.s = a.d join Country t on t.placeId = i.d where a.s = p.personId)
from far join Person p on p.personId = n join LivesIn l on l.s = n join City c on c.placeId = l.d
where p.firstName = $firstName order by h, p.lastName, p.personId limit 20

-- ic2
select p.personId, p.firstName, p.lastName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate from k
join Person p on p.personId = k.d join written m on m.author = k.d where k.s = $personId and m.creationDate <= $maxDate
order by m.creationDate desc, m.messageId limit 20

-- ic3
with m as (select m.author, c.name from written m join PostedIn i on i.s = m.messageId join Country c on c.placeId = i.d
  where m.creationDate >= $startDate and m.creationDate < $startDate + to_days($durationDays::int)),
home as (select l.s, c.name from LivesIn l join CityOf y on y.s = l.d join Country c on c.placeId = y.d)
select p.personId, p.firstName, p.lastName, count(*) filter (m.name = $countryX) as x, count(*) filter (m.name = $countryY) as y, count(*)
from m join Person p on p.personId = m.author where p.personId in (from near($personId)) and m.name in ($countryX, $countryY)
and not exists (from home where home.s = p.personId and home.name in ($countryX, $countryY))
group by all having x > 0 and y > 0 order by x desc, p.personId limit 20

-- ic4
with m as (select m.creationDate, t.tagId, t.name from written m join MessageTag g on g.s = m.messageId join Tag t on t.tagId = g.d
  where m.kind = 'post' and m.author in (select d from k where s = $personId))
select name, count(*) as n from m where creationDate >= $startDate and creationDate < $startDate + to_days($durationDays::int)
and tagId not in (select tagId from m where creationDate < $startDate) group by name order by n desc, name limit 10

-- ic5
with j as (select distinct s as o, d as f from HasMember where d in (from near($personId)) and joinDate > $minDate)
select o.title, o.forumId, count(m.messageId) as n from j join Forum o on o.forumId = j.o left join
(select c.s, w.author, w.messageId from ContainerOf c join written w on w.messageId = c.d) m on m.s = j.o and m.author = j.f
group by o.title, o.forumId order by n desc, o.forumId limit 20

-- ic6
select o.name, count(*) as n from written m join MessageTag g on g.s = m.messageId join Tag t on t.tagId = g.d
join MessageTag x on x.s = m.messageId join Tag o on o.tagId = x.d
where m.author in (from near($personId)) and m.kind = 'post' and t.name = $tagName and o.tagId <> t.tagId
group by o.name order by n desc, o.name limit 10

-- ic7
with l as (select l.s, max(l.creationDate) as t from Likes l join written m on m.messageId = l.d where m.author = $personId
  group by l.s order by t desc, l.s limit 20)
select p.personId, p.firstName, p.lastName, l.t,
  (select arg_min({'id': m.messageId, 'content': coalesce(m.content, m.imageFile),
    'minutes': floor(epoch(x.creationDate - m.creationDate) / 60)}, m.messageId)
    from Likes x join written m on m.messageId = x.d where x.s = l.s and x.creationDate = l.t and m.author = $personId),
  not exists (from k where k.s = $personId and k.d = p.personId)
from l join Person p on p.personId = l.s order by l.t desc, p.personId

-- ic8
select p.personId, p.firstName, p.lastName, c.creationDate, c.messageId, c.content from written m join ReplyOf r on r.d = m.messageId
join written c on c.messageId = r.s join Person p on p.personId = c.author where m.author = $personId
order by c.creationDate desc, c.messageId limit 20

-- ic9
select p.personId, p.firstName, p.lastName, m.messageId, coalesce(m.content, m.imageFile), m.creationDate from written m
join Person p on p.personId = m.author where m.author in (from near($personId)) and m.creationDate < $maxDate
order by m.creationDate desc, m.messageId limit 20

-- ic10
with liked as (select g.s from MessageTag g join HasInterest i on i.d = g.d where i.s = $personId),
posts as (select author, count(*) as n, count(*) filter (messageId in (from liked)) as common from written where kind = 'post' group by author)
select p.personId, p.firstName, p.lastName, coalesce(2 * common - n, 0) as score, p.gender, c.name from Person p
left join posts on posts.author = p.personId join LivesIn l on l.s = p.personId join City c on c.placeId = l.d
where p.personId in (from near($personId)) and not exists (from k where k.s = $personId and k.d = p.personId)
and (month(p.birthday) = $month and day(p.birthday) >= 21 or month(p.birthday) = $month % 12 + 1 and day(p.birthday) < 22)
order by score desc, p.personId limit 10

-- ic11
select p.personId, p.firstName, p.lastName, o.name, w.workFrom from WorkAt w join Person p on p.personId = w.s
join Company o on o.organisationId = w.d join CompanyIn i on i.s = w.d join Country c on c.placeId = i.d
where p.personId in (from near($personId)) and c.name = $country and w.workFrom < $year
order by w.workFrom, p.personId, o.name desc limit 10

-- ic12
with recursive class(c) as (select tagClassId from TagClass where name = $tagClass union select s from SubclassOf join class on d = c)
select p.personId, p.firstName, p.lastName, list_sort(list(distinct t.name)), count(distinct c.messageId) as n
from k join written c on c.author = k.d join Person p on p.personId = k.d join ReplyOf r on r.s = c.messageId
join Message m on m.messageId = r.d and m.kind = 'post' join MessageTag g on g.s = m.messageId join Tag t on t.tagId = g.d
join HasType y on y.s = t.tagId where k.s = $personId and y.d in (from class) group by all order by n desc, p.personId limit 20

-- ic13
with recursive w(n, h) as (select $person1Id, 0 union select k.d, h + 1 from w join k on k.s = w.n where h < 20)
select coalesce(min(h), -1) from w where n = $person2Id

-- ic14
with recursive w(n, trace) as (select $person1Id::bigint, [$person1Id::bigint] union all
  select k.d, trace || [k.d] from w join k on k.s = w.n where len(trace) < 8 and not list_contains(trace, k.d)),
best as (select trace from w where n = $person2Id and len(trace) > 1 qualify rank() over (order by len(trace)) = 1)
select list_transform(trace, lambda person: person::varchar) as people,
  (select coalesce(sum(case when m.kind = 'post' then 1 else 0.5 end), 0)::double from range(1, len(trace)) h(i)
    join written r on r.author in (trace[i], trace[i + 1]) join ReplyOf y on y.s = r.messageId
    join written m on m.messageId = y.d and m.author in (trace[i], trace[i + 1]) and m.author <> r.author) as weight
from best order by weight desc, people

-- is1
select p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, l.d, p.gender, p.creationDate from Person p
join LivesIn l on l.s = p.personId where p.personId = $personId

-- is2
with recursive mine as (from written where author = $personId order by creationDate desc, messageId desc limit 10),
up(m, o) as (select messageId, messageId from mine union select up.m, r.d from up join ReplyOf r on r.s = up.o)
select m.messageId, coalesce(m.content, m.imageFile), m.creationDate, o.messageId, a.personId, a.firstName, a.lastName from mine m
join up on up.m = m.messageId join written o on o.messageId = up.o and o.kind = 'post' join Person a on a.personId = o.author
order by m.creationDate desc, m.messageId desc

-- is3
select p.personId, p.firstName, p.lastName, k.since from k join Person p on p.personId = k.d where k.s = $personId
order by k.since desc, p.personId

-- is4
select creationDate, coalesce(content, imageFile) from Message where messageId = $messageId

-- is5
select p.personId, p.firstName, p.lastName from written m join Person p on p.personId = m.author where m.messageId = $messageId

-- is6
with recursive up(o) as (select $messageId union select d from up join ReplyOf on s = o)
select f.forumId, f.title, p.personId, p.firstName, p.lastName from up join ContainerOf c on c.d = up.o join Forum f on f.forumId = c.s
join HasModerator h on h.s = f.forumId join Person p on p.personId = h.d

-- is7
select c.messageId, c.content, c.creationDate, p.personId, p.firstName, p.lastName,
  exists (from k where k.s = p.personId and k.d = m.author) from written m join ReplyOf r on r.d = m.messageId
join written c on c.messageId = r.s join Person p on p.personId = c.author where m.messageId = $messageId
order by c.creationDate desc, p.personId, c.messageId

-- q1
select count(*) from CityOf o join LivesIn l on l.d = o.s join HasMember h on h.d = l.s join ContainerOf c on c.s = h.s
join ReplyOf r on r.d = c.d join MessageTag t on t.s = r.s join HasType y on y.s = t.d

-- q2
select count(*) from k join written c on c.author = k.s join ReplyOf r on r.s = c.messageId
join written p on p.messageId = r.d and p.kind = 'post' and p.author = k.d

-- q3
with home as (select l.s as p, o.d as n from LivesIn l join CityOf o on o.s = l.d)
select count(*) from k f join k g on g.s = f.d join k h on h.s = f.s and h.d = g.d
join home x on x.p = f.s join home y on y.p = f.d and y.n = x.n join home z on z.p = g.d and z.n = x.n

-- q4
select count(*) from MessageTag t join HasCreator h on h.s = t.s join Likes l on l.d = t.s join ReplyOf r on r.d = t.s

-- q5
select count(*) from MessageTag m join ReplyOf r on r.d = m.s join MessageTag t on t.s = r.s where t.d <> m.d

-- q6
select count(*) from k f join k g on g.s = f.d join HasInterest i on i.s = g.d where f.s <> g.d

-- q7
select count(*) from MessageTag t join HasCreator h on h.s = t.s left join Likes l on l.d = t.s left join ReplyOf r on r.d = t.s

-- q8
select count(*) from MessageTag m join ReplyOf r on r.d = m.s join MessageTag t on t.s = r.s
where t.d <> m.d and not exists (from MessageTag x where x.s = r.s and x.d = m.d)

-- q9
select count(*) from k f join k g on g.s = f.d join HasInterest i on i.s = g.d
where f.s <> g.d and not exists (from k h where h.s = f.s and h.d = g.d)

-- tcr1
with recursive t as (from Transfer where createTime > $startTime and createTime < $endTime),
w(n, moment, h) as (select d, createTime, 1 from t where s = $id union
  select t.d, t.createTime, h + 1 from w join t on t.s = w.n and t.createTime > w.moment where h < 3)
select n, min(h) as h, m.mediumId, m.type from w join SignIn i on i.d = n and i.createTime > $startTime and i.createTime < $endTime
join Medium m on m.mediumId = i.s and m.isBlocked where n <> $id group by n, m.mediumId, m.type order by h, n, m.mediumId

-- tcr2
with recursive t as (from Transfer where createTime > $startTime and createTime < $endTime),
w(n, moment, h, own) as (select t.s, t.createTime, 1, t.d from t join PersonOwn o on o.d = t.d where o.s = $id union
  select t.s, t.createTime, h + 1, own from w join t on t.d = w.n and t.createTime < w.moment where h < 3),
found as (select distinct w.n, p.s as l from w join Deposit p on p.d = w.n and p.createTime > $startTime and p.createTime < $endTime
  where w.n <> w.own)
select n, sum(l.amount) as a, sum(l.balance) from found join Loan l on l.loanId = found.l group by n order by a desc, n

-- tcr3
with recursive t as (from Transfer where createTime > $startTime and createTime < $endTime),
w(n, h) as (select $id1, 0 union select t.d, h + 1 from w join t on t.s = w.n where h < 12)
select coalesce(min(h), -1) from w where n = $id2

-- tcr4
with t as (from Transfer where createTime > $startTime and createTime < $endTime),
y as (select d as o, count(*) as n, sum(amount) as a, max(amount) as m from t where s = $id2 and d not in ($id1, $id2) group by d),
z as (select s as o, count(*) as n, sum(amount) as a, max(amount) as m from t where d = $id1 group by s)
select o, y.n, y.a, y.m, z.n, z.a, z.m from y join z using (o) where exists (from t where s = $id1 and d = $id2)
order by y.a desc, z.a desc, o

-- tcr5
with recursive t as (from Transfer where createTime > $startTime and createTime < $endTime),
w(n, moment, trace) as (select d, null::timestamp, [d] from PersonOwn where s = $id union
  select t.d, t.createTime, w.trace || [t.d] from w join t on t.s = w.n and (w.moment is null or t.createTime > w.moment)
  where len(w.trace) < 4 and not list_contains(w.trace, t.d))
select distinct trace, len(trace) - 1 as h from w where h > 0 order by h desc, trace

-- tcr6
with w as (select s as m, sum(amount) as a from Withdraw where d = $id and amount > $threshold2 and createTime > $startTime
  and createTime < $endTime group by s)
select m, sum(t.amount), w.a from w join Transfer t on t.d = m and t.s <> m and t.amount > $threshold1 and t.createTime > $startTime
  and t.createTime < $endTime group by m, w.a having count(*) > 3 order by w.a desc, m

-- tcr7
with t as (from Transfer where amount > $threshold and createTime > $startTime and createTime < $endTime)
select (select count(distinct s) from t where d = $id), (select count(distinct d) from t where s = $id),
  coalesce(round((select coalesce(sum(amount), 0) from t where d = $id) / (select sum(amount) from t where s = $id), 3), -1)

-- tcr8
with moved as (from (from Transfer union all from Withdraw) where createTime > $startTime and createTime < $endTime),
one as (select d as a, sum(amount) as x from Deposit where s = $id and createTime > $startTime and createTime < $endTime group by d),
two as (select m.d as a, sum(m.amount) as x from one join moved m on m.s = a where m.amount > x * $threshold group by m.d),
three as (select m.d as a, sum(m.amount) as x from two join moved m on m.s = a where m.amount > x * $threshold group by m.d),
four as (select m.d as a, sum(m.amount) as x from three join moved m on m.s = a where m.amount > x * $threshold group by m.d),
reached as (select *, 1 as n from one union all select *, 2 from two union all select *, 3 from three union all select *, 4 from four)
select a, round(sum(x) / (select amount from Loan where loanId = $id), 3) as ratio, min(n) as n from reached group by a
order by n desc, ratio desc, a

-- tcr9
with sums as (select
  (select coalesce(sum(amount), 0) from Deposit where d = $id and amount > $threshold and createTime > $startTime and createTime < $endTime) as lent,
  (select sum(amount) from Repay where s = $id and amount > $threshold and createTime > $startTime and createTime < $endTime) as repaid,
  (select coalesce(sum(amount), 0) from Transfer where d = $id and amount > $threshold and createTime > $startTime and createTime < $endTime) as received,
  (select sum(amount) from Transfer where s = $id and amount > $threshold and createTime > $startTime and createTime < $endTime) as sent)
select coalesce(round(lent / repaid, 3), -1), coalesce(round(lent / sent, 3), -1), coalesce(round(received / sent, 3), -1) from sums

-- tcr10
with a as (select distinct d from PersonInvest where s = $id1 and createTime > $startTime and createTime < $endTime),
b as (select distinct d from PersonInvest where s = $id2 and createTime > $startTime and createTime < $endTime),
n as (select (select count(*) from (from a intersect from b)) as b, (select count(*) from (from a union from b)) as e)
select case when e = 0 then 0 else round(b / e, 3) end from n

-- tcr11
with recursive q(n) as (select d from PersonGuarantee where s = $id and createTime > $startTime and createTime < $endTime union
  select g.d from q join PersonGuarantee g on g.s = q.n and g.createTime > $startTime and g.createTime < $endTime),
l as (select distinct a.d from q join PersonApply a on a.s = q.n where q.n <> $id)
select coalesce(sum(amount), 0), count(*) from Loan where loanId in (from l)

-- tcr12
select t.d, sum(t.amount) as a from PersonOwn o join Transfer t on t.s = o.d and t.createTime > $startTime and t.createTime < $endTime
where o.s = $id and t.d in (select d from CompanyOwn) group by t.d order by a desc, t.d
