# A database is filled; duplicates are rejected and reported, integrity is checked.
# needs: sqlite3
sqlite3 jobs.db <<'S'
create table job(id integer primary key, state text not null, exit_code text);
insert into job values (1, 'FAILED', '1:0'), (2, 'COMPLETED', '0:0'), (3, 'NODE_FAIL', '0:0'), (4, 'OUT_OF_MEMORY', '0:125'), (5, 'TIMEOUT', '0:0');
insert or ignore into job values (1, 'CANCELLED', '0:15');
.headers on
.mode column
select * from job;
select state, count(*) from job group by state;
pragma integrity_check;
S
sqlite3 jobs.db "insert into job values (2, 'FAILED', '1:0')" || echo "duplicate refused, as it should be"
