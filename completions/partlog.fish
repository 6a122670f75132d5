# fish completion of partlog(1); made by completions/generate, so change that.

# The words of the command line before the cursor, without options: the command first.
function __partlog_words
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word -d --dir --lock-timeout
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

function __partlog_command
    set -l words (__partlog_words)
    set -q words[1]; and contains -- $words[1] $argv
end

function __partlog_no_command
    set -l words (__partlog_words)
    not set -q words[1]
end

# Whether an operand stands behind the command.
function __partlog_has_operand
    set -l words (__partlog_words)
    set -q words[2]
end

# The topics (list-topics) or groups (list-groups) of the store that the command line names.
function __partlog_names
    set -l words (commandline -opc)
    command -q $words[1]; or return
    set -l directory
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -d --dir
                set -q words[(math $i + 1)]; and set directory -d $words[(math $i + 1)]
            case '--dir=*'
                set directory -d (string replace -- --dir= '' $words[$i])
        end
    end
    $words[1] $directory $argv[1] --tsv --no-header 2>/dev/null | cut -f 1
end

complete -c partlog -f
complete -c partlog -n __partlog_no_command -a create-topic -d 'make topics, and the store if there is none'
complete -c partlog -n __partlog_no_command -a alter-topic -d 'change the configuration of a topic'
complete -c partlog -n __partlog_no_command -a delete-topic -d 'remove topics with all their records'
complete -c partlog -n __partlog_no_command -a list-topics -d 'list the topics of the store'
complete -c partlog -n __partlog_no_command -a describe-topic -d 'list the partitions of topics, with their offsets and sizes'
complete -c partlog -n __partlog_no_command -a get-offsets -d 'look up offsets by time, or the start or the end of partitions'
complete -c partlog -n __partlog_no_command -a produce -d 'append records to a topic, one for each line of the input'
complete -c partlog -n __partlog_no_command -a consume -d 'print the records of topics'
complete -c partlog -n __partlog_no_command -a commit -d 'move a group\'s positions forward'
complete -c partlog -n __partlog_no_command -a reset-offset -d 'move a group\'s positions to offsets, times, or where another group stands'
complete -c partlog -n __partlog_no_command -a list-groups -d 'list the consumer groups of the store'
complete -c partlog -n __partlog_no_command -a describe-group -d 'list where groups stand, and who reads for them'
complete -c partlog -n __partlog_no_command -a delete-group -d 'remove groups with all their positions'
complete -c partlog -n __partlog_no_command -a delete-offsets -d 'remove a group\'s positions in topics'
complete -c partlog -n __partlog_no_command -a check-lag -d 'tell whether a group is more than so many records behind'
complete -c partlog -n __partlog_no_command -a dump -d 'look into segment files, indexes and checkpoints'
complete -c partlog -n __partlog_no_command -a locks -d 'list who holds which lock, and since when'
complete -c partlog -n __partlog_no_command -a help -d 'describe the program or one of its commands'
complete -c partlog -n '__partlog_no_command' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_no_command' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_no_command' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_no_command' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_no_command' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_no_command' -s V -l version -d 'print the version'

complete -c partlog -n '__partlog_command create-topic' -s p -l partitions -x -d 'how many partitions (default 1); fixed for the topic\'s life'
complete -c partlog -n '__partlog_command create-topic' -s c -l config -x -a 'cleanup.policy=delete cleanup.policy=compact cleanup.policy=delete,compact compression.type=producer compression.type=uncompressed compression.type=gzip compression.type=snappy compression.type=lz4 compression.type=zstd delete.retention.ms= flush.messages= index.interval.bytes= max.compaction.lag.ms= max.message.bytes= message.timestamp.after.max.ms= message.timestamp.type=CreateTime message.timestamp.type=LogAppendTime min.cleanable.dirty.ratio= min.compaction.lag.ms= min.insync.replicas= retention.bytes= retention.ms= segment.bytes= segment.ms=' -d 'set a configuration value; may be repeated'
complete -c partlog -n '__partlog_command create-topic' -l if-not-exists -d 'a topic that exists already is left as it is, and no error'
complete -c partlog -n '__partlog_command create-topic' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command create-topic' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command create-topic' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command create-topic' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command create-topic' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command create-topic' -s h -l help -d 'print this help'

complete -c partlog -n '__partlog_command alter-topic' -s c -l config -x -a 'cleanup.policy=delete cleanup.policy=compact cleanup.policy=delete,compact compression.type=producer compression.type=uncompressed compression.type=gzip compression.type=snappy compression.type=lz4 compression.type=zstd delete.retention.ms= flush.messages= index.interval.bytes= max.compaction.lag.ms= max.message.bytes= message.timestamp.after.max.ms= message.timestamp.type=CreateTime message.timestamp.type=LogAppendTime min.cleanable.dirty.ratio= min.compaction.lag.ms= min.insync.replicas= retention.bytes= retention.ms= segment.bytes= segment.ms=' -d 'set a configuration value; may be repeated'
complete -c partlog -n '__partlog_command alter-topic' -s x -l delete-config -x -a 'cleanup.policy compression.type delete.retention.ms flush.messages index.interval.bytes max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas retention.bytes retention.ms segment.bytes segment.ms' -d 'go back to the default; may be repeated'
complete -c partlog -n '__partlog_command alter-topic' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command alter-topic' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command alter-topic' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command alter-topic' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command alter-topic' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command alter-topic' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command alter-topic' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command delete-topic' -l if-exists -d 'a topic that does not exist is no error'
complete -c partlog -n '__partlog_command delete-topic' -l yes -d 'do not ask'
complete -c partlog -n '__partlog_command delete-topic' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command delete-topic' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command delete-topic' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command delete-topic' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command delete-topic' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command delete-topic' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command delete-topic' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command list-topics' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command list-topics' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command list-topics' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command list-topics' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command list-topics' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command list-topics' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command list-topics' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command list-topics' -s h -l help -d 'print this help'

complete -c partlog -n '__partlog_command describe-topic' -l configs -d 'the configuration in force, and which values are defaults'
complete -c partlog -n '__partlog_command describe-topic' -l segments -d 'the segments of each partition'
complete -c partlog -n '__partlog_command describe-topic' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command describe-topic' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command describe-topic' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command describe-topic' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command describe-topic' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command describe-topic' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command describe-topic' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command describe-topic' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command describe-topic' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command get-offsets' -l time -x -a 'earliest latest max-timestamp' -d 'earliest (-2), latest (-1, the default), max-timestamp (-3), or a time: the first record at or after it'
complete -c partlog -n '__partlog_command get-offsets' -l local -d 'a time without zone is local time, not UTC'
complete -c partlog -n '__partlog_command get-offsets' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command get-offsets' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command get-offsets' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command get-offsets' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command get-offsets' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command get-offsets' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command get-offsets' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command get-offsets' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command get-offsets' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command produce' -s k -l key -x -d 'the key of records that come without one'
complete -c partlog -n '__partlog_command produce' -s K -l key-delimiter -x -d 'what stands before the first DELIM in a record is its key'
complete -c partlog -n '__partlog_command produce' -l lenient -d 'with -K: a record without DELIM has no key, and is no error'
complete -c partlog -n '__partlog_command produce' -s D -l delimiter -x -d 'what ends a record (default: newline)'
complete -c partlog -n '__partlog_command produce' -s 0 -l null-delimiter -d 'a NUL byte ends a record'
complete -c partlog -n '__partlog_command produce' -l crlf -d 'drop one CR before the newline'
complete -c partlog -n '__partlog_command produce' -l skip-empty -d 'pass over blank lines; they do not count'
complete -c partlog -n '__partlog_command produce' -s H -l header -x -d 'add a header (without = a null one); may be repeated'
complete -c partlog -n '__partlog_command produce' -s Z -l null -d 'an empty value, and an empty key before DELIM, is null'
complete -c partlog -n '__partlog_command produce' -l null-marker -x -d 'a value or key that reads TEXT is null'
complete -c partlog -n '__partlog_command produce' -s J -l json-lines -d 'read one JSON object a line, as consume -J and kcat -J write them'
complete -c partlog -n '__partlog_command produce' -l keep-partition -d 'with -J: store each record in the partition that it names'
complete -c partlog -n '__partlog_command produce' -l timestamp -x -d 'the timestamp of records that come without one (default: now)'
complete -c partlog -n '__partlog_command produce' -l local -d 'a time without zone is local time, not UTC'
complete -c partlog -n '__partlog_command produce' -s c -l count -x -d 'stop after N records'
complete -c partlog -n '__partlog_command produce' -l skip -x -d 'pass over the first N records of the input'
complete -c partlog -n '__partlog_command produce' -l file-as-record -d 'each file is one record'
complete -c partlog -n '__partlog_command produce' -s l -d 'accepted, since kcat needs it: files are split into records'
complete -c partlog -n '__partlog_command produce' -s p -l partition -x -d 'store everything in partition N (default: by key, else in turn)'
complete -c partlog -n '__partlog_command produce' -s z -l compression -x -a 'none gzip snappy lz4 zstd' -d 'none, gzip, snappy, lz4 or zstd'
complete -c partlog -n '__partlog_command produce' -l create -d 'make the store and the topic where they are missing'
complete -c partlog -n '__partlog_command produce' -l sync -x -a 'end batch none' -d 'end (default): all is durable before status 0; batch: before each acknowledgement; none'
complete -c partlog -n '__partlog_command produce' -l acks -x -a 'all leader' -d 'all (default) or leader: whose copy counts; the same without replicas'
complete -c partlog -n '__partlog_command produce' -l linger -x -d 'store a record at most this long after it came in (default 5)'
complete -c partlog -n '__partlog_command produce' -l batch-size -x -d 'aim at batches of this size'
complete -c partlog -n '__partlog_command produce' -l report -d 'print a line for each batch once it is safe: topic, partition, first and last offset, and how many records and bytes of the input are stored'
complete -c partlog -n '__partlog_command produce' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command produce' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command produce' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command produce' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command produce' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command produce; and not __partlog_has_operand' -a '(__partlog_names list-topics)'
complete -c partlog -n '__partlog_command produce; and __partlog_has_operand' -F

complete -c partlog -n '__partlog_command consume' -s p -l partition -x -d 'read partition N (or 0,2 or 0-3) of the topics; may be repeated'
complete -c partlog -n '__partlog_command consume' -s o -l offset -x -a 'beginning end' -d 'start at beginning (default), end, offset N, N before the end (-N), a time (s@TIME) or, with -g, stored; e@TIME stops there'
complete -c partlog -n '__partlog_command consume' -l since -x -d 'start each partition at its first record with a timestamp at or after TIME'
complete -c partlog -n '__partlog_command consume' -l until -x -d 'stop each partition before the first later record with a timestamp at or after TIME'
complete -c partlog -n '__partlog_command consume' -l local -d 'a time without zone is local time, not UTC'
complete -c partlog -n '__partlog_command consume' -l tail -x -d 'only the newest N records of all partitions together, by timestamp'
complete -c partlog -n '__partlog_command consume' -s c -l count -x -d 'stop after N records'
complete -c partlog -n '__partlog_command consume' -s e -l exit -d 'stop at the end as it stood at the start (the default)'
complete -c partlog -n '__partlog_command consume' -s F -l follow -d 'wait for more records at the end'
complete -c partlog -n '__partlog_command consume' -l idle-timeout -x -d 'with -F: stop when no record came for TIME'
complete -c partlog -n '__partlog_command consume' -l merge -x -a 'time' -d 'print by timestamp, then partition, then offset, not one partition after another'
complete -c partlog -n '__partlog_command consume' -l reset -x -a 'earliest latest fail' -d 'earliest (default), latest or fail (status 4): when the log start has overtaken the reader, or its group has no position'
complete -c partlog -n '__partlog_command consume' -s k -l key -x -d 'only records with this key; may be repeated for any of them'
complete -c partlog -n '__partlog_command consume' -s H -l header -x -d 'only records with this header; may be repeated for all of them'
complete -c partlog -n '__partlog_command consume' -l grep -x -d 'only records whose value matches, as grep -E does; may be repeated for any of them'
complete -c partlog -n '__partlog_command consume' -l not -d 'only records whose value does not match --grep'
complete -c partlog -n '__partlog_command consume' -l fail-if-empty -d 'status 3 if no record was printed'
complete -c partlog -n '__partlog_command consume' -s K -l key-delimiter -x -d 'print the key and DELIM before the value'
complete -c partlog -n '__partlog_command consume' -s D -l delimiter -x -d 'print DELIM behind each record, not a newline'
complete -c partlog -n '__partlog_command consume' -s 0 -l null-delimiter -d 'print a NUL byte behind each record'
complete -c partlog -n '__partlog_command consume' -s Z -l null -d 'print null as NULL, not as nothing'
complete -c partlog -n '__partlog_command consume' -l null-marker -x -d 'print null as TEXT'
complete -c partlog -n '__partlog_command consume' -s f -l format -x -d 'print by tokens: %s value, %k key, %S and %K their lengths, %R the value\'s as 4 bytes, %t topic, %p partition, %o offset, %T timestamp, %h headers, %%; {hex}, {base64}, {json} or {iso} behind a token changes its form'
complete -c partlog -n '__partlog_command consume' -s J -l json-lines -d 'print one JSON object a line'
complete -c partlog -n '__partlog_command consume' -s u -l unbuffered -d 'write each record at once'
complete -c partlog -n '__partlog_command consume' -s g -l group -x -a '(__partlog_names list-groups)' -d 'read as a member of GROUP: share the partitions with the others, go on where it stands'
complete -c partlog -n '__partlog_command consume' -l commit -x -d 'commit after (default) records were taken from us, before they are handed on, or none: a script does it'
complete -c partlog -n '__partlog_command consume' -l commit-interval -x -d 'commit at most every TIME (1s; with --exec after each batch)'
complete -c partlog -n '__partlog_command consume' -l assignor -x -d 'share by sticky (default), range or roundrobin'
complete -c partlog -n '__partlog_command consume' -l positions -r -F -d 'at the end write where each partition stands to FILE, for commit --from-file'
complete -c partlog -n '__partlog_command consume' -l exec -x -d 'hand the records in batches of one partition to `sh -c COMMAND`, on its standard input, instead of printing them'
complete -c partlog -n '__partlog_command consume' -l exec-batch -x -d 'at most N records a batch (1000)'
complete -c partlog -n '__partlog_command consume' -l retries -x -d 'run a command that fails N times again (3), after 1 s, 2 s, 4 s ...'
complete -c partlog -n '__partlog_command consume' -l dead-letter -x -d 'store the records of a batch in TOPIC when the command failed for good, and go on'
complete -c partlog -n '__partlog_command consume' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command consume' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command consume' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command consume' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command consume' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command consume' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command commit' -s g -l group -x -a '(__partlog_names list-groups)' -d 'the group (must be given)'
complete -c partlog -n '__partlog_command commit' -l from-file -r -F -d 'the positions stand in FILE (- is standard input): topic,partition,offset'
complete -c partlog -n '__partlog_command commit' -l processed -d 'the offsets are those of the last records handled, not of the next to read'
complete -c partlog -n '__partlog_command commit' -l metadata -x -d 'a text to be kept with the positions'
complete -c partlog -n '__partlog_command commit' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command commit' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command commit' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command commit' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command commit' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command commit' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command commit' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command reset-offset' -s g -l group -x -a '(__partlog_names list-groups)' -d 'the group (must be given)'
complete -c partlog -n '__partlog_command reset-offset' -l all-topics -d 'all partitions in which the group has a position'
complete -c partlog -n '__partlog_command reset-offset' -l to-earliest -d 'to the start of the log'
complete -c partlog -n '__partlog_command reset-offset' -l to-latest -d 'to the end of the log'
complete -c partlog -n '__partlog_command reset-offset' -l to-current -d 'to where the group stands'
complete -c partlog -n '__partlog_command reset-offset' -l to-offset -x -d 'to offset N'
complete -c partlog -n '__partlog_command reset-offset' -l shift-by -x -d 'N records forward from where the group stands, back if N is negative'
complete -c partlog -n '__partlog_command reset-offset' -l to-datetime -x -d 'to the first record at or after TIME'
complete -c partlog -n '__partlog_command reset-offset' -l by-duration -x -d 'to the first record of the last TIME'
complete -c partlog -n '__partlog_command reset-offset' -l from-file -r -F -d 'to what FILE says (- is standard input): topic,partition,offset'
complete -c partlog -n '__partlog_command reset-offset' -l to-group -x -a '(__partlog_names list-groups)' -d 'to where GROUP stands'
complete -c partlog -n '__partlog_command reset-offset' -l local -d 'a time without zone is local time, not UTC'
complete -c partlog -n '__partlog_command reset-offset' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command reset-offset' -l execute -d 'do it'
complete -c partlog -n '__partlog_command reset-offset' -l export -d 'print the offsets as --from-file reads them, and do nothing'
complete -c partlog -n '__partlog_command reset-offset' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command reset-offset' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command reset-offset' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command reset-offset' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command reset-offset' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command reset-offset' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command reset-offset' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command reset-offset' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command reset-offset' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command list-groups' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command list-groups' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command list-groups' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command list-groups' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command list-groups' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command list-groups' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command list-groups' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command list-groups' -s h -l help -d 'print this help'

complete -c partlog -n '__partlog_command describe-group' -l members -d 'the live members, and what each has'
complete -c partlog -n '__partlog_command describe-group' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command describe-group' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command describe-group' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command describe-group' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command describe-group' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command describe-group' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command describe-group' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command describe-group' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command describe-group' -a '(__partlog_names list-groups)'

complete -c partlog -n '__partlog_command delete-group' -l if-exists -d 'a group that does not exist is no error'
complete -c partlog -n '__partlog_command delete-group' -l yes -d 'do not ask'
complete -c partlog -n '__partlog_command delete-group' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command delete-group' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command delete-group' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command delete-group' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command delete-group' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command delete-group' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command delete-group' -a '(__partlog_names list-groups)'

complete -c partlog -n '__partlog_command delete-offsets' -s g -l group -x -a '(__partlog_names list-groups)' -d 'the group (must be given)'
complete -c partlog -n '__partlog_command delete-offsets' -l if-exists -d 'a group or a position that does not exist is no error'
complete -c partlog -n '__partlog_command delete-offsets' -l yes -d 'do not ask'
complete -c partlog -n '__partlog_command delete-offsets' -s n -l dry-run -d 'print what would be done, and do nothing'
complete -c partlog -n '__partlog_command delete-offsets' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command delete-offsets' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command delete-offsets' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command delete-offsets' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command delete-offsets' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command delete-offsets' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command check-lag' -s g -l group -x -a '(__partlog_names list-groups)' -d 'the group (must be given)'
complete -c partlog -n '__partlog_command check-lag' -l max -x -d 'the largest lag that is no alarm (must be given)'
complete -c partlog -n '__partlog_command check-lag' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command check-lag' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command check-lag' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command check-lag' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command check-lag' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command check-lag' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command check-lag' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command check-lag' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command check-lag' -a '(__partlog_names list-topics)'

complete -c partlog -n '__partlog_command dump' -l records -d 'the records instead of the batches'
complete -c partlog -n '__partlog_command dump' -l decode -d 'records of __consumer_offsets and __transaction_state as JSON; with --records'
complete -c partlog -n '__partlog_command dump' -l from-offset -x -d 'from the batch on that holds offset N'
complete -c partlog -n '__partlog_command dump' -l to-offset -x -d 'up to the batch that holds offset N'
complete -c partlog -n '__partlog_command dump' -l from-position -x -d 'from the first batch on that starts at byte N or behind it'
complete -c partlog -n '__partlog_command dump' -l to-position -x -d 'up to the last batch that starts at byte N or before it'
complete -c partlog -n '__partlog_command dump' -l json -d 'print one JSON object a line'
complete -c partlog -n '__partlog_command dump' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command dump' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command dump' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command dump' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command dump' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command dump' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command dump' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command dump' -F

complete -c partlog -n '__partlog_command locks' -l all -d 'all locks there are, also those that nobody holds'
complete -c partlog -n '__partlog_command locks' -l json -d 'print one JSON array of objects'
complete -c partlog -n '__partlog_command locks' -l tsv -d 'print tab-separated values under a header line'
complete -c partlog -n '__partlog_command locks' -l no-header -d 'without the header line'
complete -c partlog -n '__partlog_command locks' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command locks' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command locks' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command locks' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command locks' -s h -l help -d 'print this help'

complete -c partlog -n '__partlog_command help' -l list -d 'print all commands and their options, tab-separated, for programs'
complete -c partlog -n '__partlog_command help' -s d -l dir -x -a '(__fish_complete_directories)' -d 'the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog'
complete -c partlog -n '__partlog_command help' -l lock-timeout -x -d 'give up when a lock is not free within TIME (status 6)'
complete -c partlog -n '__partlog_command help' -s q -l quiet -d 'no notices'
complete -c partlog -n '__partlog_command help' -s v -l verbose -d 'more notices'
complete -c partlog -n '__partlog_command help' -s h -l help -d 'print this help'
complete -c partlog -n '__partlog_command help; and not __partlog_has_operand' -a 'create-topic alter-topic delete-topic list-topics describe-topic get-offsets produce consume commit reset-offset list-groups describe-group delete-group delete-offsets check-lag dump locks help'
