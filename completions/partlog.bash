# bash completion of partlog(1); made by completions/generate, so change that.

# Sets options, those of them that take a value, and what the operands are.
_partlog_of() {
  commands='create-topic alter-topic delete-topic list-topics describe-topic get-offsets produce consume commit reset-offset list-groups describe-group delete-group delete-offsets check-lag dump verify disk-usage diff locks help'
  first='' others=''
  case $1 in
    '')
      options='-d --dir --lock-timeout -q --quiet -v --verbose -h --help -V --version'
      valued='-d --dir --lock-timeout'
      ;;
    create-topic)
      options='-p --partitions -c --config --if-not-exists -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-p --partitions -c --config -d --dir --lock-timeout'
      ;;
    alter-topic)
      options='-c --config -x --delete-config -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-c --config -x --delete-config -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    delete-topic)
      options='--if-exists --yes -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    list-topics)
      options='--json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      ;;
    describe-topic)
      options='--configs --segments --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    get-offsets)
      options='--time --local --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='--time -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    produce)
      options='-k --key -K --key-delimiter --lenient -D --delimiter -0 --null-delimiter --crlf --skip-empty -H --header -Z --null --null-marker -J --json-lines --keep-partition --timestamp --local -c --count --skip --file-as-record -l -p --partition -z --compression --create --sync --acks --linger --batch-size --report -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-k --key -K --key-delimiter -D --delimiter -H --header --null-marker --timestamp -c --count --skip -p --partition -z --compression --sync --acks --linger --batch-size -d --dir --lock-timeout'
      first='topic' others='file'
      ;;
    consume)
      options='--files --isolation --skip-corrupt -p --partition -o --offset --since --until --local --tail -c --count -e --exit -F --follow --idle-timeout --merge --reset -k --key -H --header --grep --not --fail-if-empty -K --key-delimiter -D --delimiter -0 --null-delimiter -Z --null --null-marker -f --format -J --json-lines -u --unbuffered -g --group --commit --commit-interval --assignor --positions --exec --exec-batch --retries --dead-letter -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='--isolation -p --partition -o --offset --since --until --tail -c --count --idle-timeout --merge --reset -k --key -H --header --grep -K --key-delimiter -D --delimiter --null-marker -f --format -g --group --commit --commit-interval --assignor --positions --exec --exec-batch --retries --dead-letter -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    commit)
      options='-g --group --from-file --processed --metadata -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-g --group --from-file --metadata -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    reset-offset)
      options='-g --group --all-topics --to-earliest --to-latest --to-current --to-offset --shift-by --to-datetime --by-duration --from-file --to-group --local -n --dry-run --execute --export --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-g --group --to-offset --shift-by --to-datetime --by-duration --from-file --to-group -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    list-groups)
      options='--json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      ;;
    describe-group)
      options='--members --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='group' others='group'
      ;;
    delete-group)
      options='--if-exists --yes -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='group' others='group'
      ;;
    delete-offsets)
      options='-g --group --if-exists --yes -n --dry-run -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-g --group -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    check-lag)
      options='-g --group --max --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-g --group --max -d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    dump)
      options='--records --decode --from-offset --to-offset --from-position --to-position --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='--from-offset --to-offset --from-position --to-position -d --dir --lock-timeout'
      first='file' others='file'
      ;;
    verify)
      options='--repair --reindex --yes -n --dry-run --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='file' others='file'
      ;;
    disk-usage)
      options='--by-partition --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='topic' others='topic'
      ;;
    diff)
      options='--common --configs --epochs --limit --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='--limit -d --dir --lock-timeout'
      first='directory' others='directory'
      ;;
    locks)
      options='--all --json --tsv --no-header -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      ;;
    help)
      options='--list -d --dir --lock-timeout -q --quiet -v --verbose -h --help'
      valued='-d --dir --lock-timeout'
      first='command' others=''
      ;;
    *) options='' valued='' ;;
  esac
}

# The topics (list-topics) or groups (list-groups) of the store that the command line names.
_partlog_names() {
  local directory=() i
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    case ${words[i]} in
      -d | --dir) directory=(-d "${words[i + 1]/#\~/$HOME}") ;;
      --dir=*) directory=(-d "${words[i]#--dir=}") ;;
    esac
  done
  "${words[0]/#\~/$HOME}" "${directory[@]}" "$1" --tsv --no-header 2> /dev/null | cut -f 1
}

_partlog() {
  local line=${COMP_LINE:0:COMP_POINT} words cur option='' command='' operands=0 i word
  local commands options valued first others values=''
  COMPREPLY=()
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  cur=${words[-1]}

  # The command, how many operands stand before the cursor, and the option that waits for its value.
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    word=${words[i]}
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* && $word != - ]]; then
      _partlog_of "$command"
      [[ " $valued " == *" $word "* ]] && option=$word
    elif [[ -z $command ]]; then
      command=$word
    else
      ((++operands))
    fi
  done
  _partlog_of "$command"
  if [[ -z $option && $cur == --*=* ]]; then
    option=${cur%%=*}
    cur=${cur#*=}
  fi

  if [[ -n $option ]]; then
    case $command:$option in
      create-topic:-c | create-topic:--config) values='cleanup.policy=delete cleanup.policy=compact cleanup.policy=delete,compact compression.type=producer compression.type=uncompressed compression.type=gzip compression.type=snappy compression.type=lz4 compression.type=zstd delete.retention.ms= flush.messages= index.interval.bytes= max.compaction.lag.ms= max.message.bytes= message.timestamp.after.max.ms= message.timestamp.type=CreateTime message.timestamp.type=LogAppendTime min.cleanable.dirty.ratio= min.compaction.lag.ms= min.insync.replicas= retention.bytes= retention.ms= segment.bytes= segment.ms=' ;;
      alter-topic:-c | alter-topic:--config) values='cleanup.policy=delete cleanup.policy=compact cleanup.policy=delete,compact compression.type=producer compression.type=uncompressed compression.type=gzip compression.type=snappy compression.type=lz4 compression.type=zstd delete.retention.ms= flush.messages= index.interval.bytes= max.compaction.lag.ms= max.message.bytes= message.timestamp.after.max.ms= message.timestamp.type=CreateTime message.timestamp.type=LogAppendTime min.cleanable.dirty.ratio= min.compaction.lag.ms= min.insync.replicas= retention.bytes= retention.ms= segment.bytes= segment.ms=' ;;
      alter-topic:-x | alter-topic:--delete-config) values='cleanup.policy compression.type delete.retention.ms flush.messages index.interval.bytes max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas retention.bytes retention.ms segment.bytes segment.ms' ;;
      get-offsets:--time) values='earliest latest max-timestamp' ;;
      produce:-z | produce:--compression) values='none gzip snappy lz4 zstd' ;;
      produce:--sync) values='end batch none' ;;
      produce:--acks) values='all leader' ;;
      consume:--isolation) values='committed uncommitted' ;;
      consume:-o | consume:--offset) values='beginning end' ;;
      consume:--merge) values='time' ;;
      consume:--reset) values='earliest latest fail' ;;
      *:--group | *:--to-group | *:-g) values=$(_partlog_names list-groups) ;;
      *:--from-file | *:--positions) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2> /dev/null ;;
      *:-d | *:--dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2> /dev/null ;;
    esac
  elif [[ $cur == -* ]]; then
    values=$options
  elif [[ -z $command ]]; then
    values=$commands
  else
    ((operands > 0)) && first=$others
    case $first in
      topic) values=$(_partlog_names list-topics) ;;
      group) values=$(_partlog_names list-groups) ;;
      command) values=$commands ;;
      directory) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2> /dev/null ;;
      file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2> /dev/null ;;
    esac
  fi
  [[ -n $values ]] && mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2> /dev/null

  # Readline puts what is behind the last of these in place.
  if [[ $cur == *[=:]* && $COMP_WORDBREAKS == *[=:]* ]]; then
    local done=${cur%"${cur##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]#"$done"}")
  fi
}

complete -F _partlog partlog
